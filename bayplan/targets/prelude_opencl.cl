/* The C types and macros that the kernels are written with. */
typedef char int8_t;
typedef uchar uint8_t;
typedef short int16_t;
typedef ushort uint16_t;
typedef int int32_t;
typedef uint uint32_t;
typedef long int64_t;
typedef ulong uint64_t;

#define BP_INLINE static inline
#define BP_INFINITY INFINITY
#define BP_NAN NAN
#define INT64_C(x) x##L
#define UINT64_C(x) x##UL
#define INT32_MIN (-2147483647 - 1)
#define INT64_MIN (-9223372036854775807L - 1)
