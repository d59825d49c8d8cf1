/* The C types and macros that the kernels are written with. */
#if defined(BP_EMULATED)
/* emulated_cuda.hpp comes before this file. */
#elif defined(__CUDACC_RTC__)
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#ifndef INT64_C
#define INT64_C(x) x##LL
#define UINT64_C(x) x##ULL
#define INT32_MIN (-2147483647 - 1)
#define INT64_MIN (-9223372036854775807LL - 1)
#endif
#else
#include <stdint.h>
#endif

#ifndef BP_EMULATED
/* Memory of a thread whose values come to nothing. */
#pragma nv_diag_suppress 550
#define BP_INLINE __device__ __forceinline__
/* Memory of a block: of a constant size, or of the size that the launch gives. */
#define BP_SHARED(type, name, count, alignment) __shared__ __align__(alignment) type name[count]
#define BP_SHARED_OF_LAUNCH(type, name)                      \
    extern __shared__ __align__(128) uint8_t shared_memory[]; \
    type *const name = (type *)shared_memory
#endif
#ifdef __CUDACC_RTC__
#define BP_INFINITY __builtin_bit_cast(float, 0x7f800000)
#define BP_NAN __builtin_bit_cast(float, 0x7fc00000)
#else
#define BP_INFINITY __builtin_huge_valf()
#define BP_NAN __builtin_nanf("")
#endif
