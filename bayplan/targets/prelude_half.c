/* float16 lies in memory as 16 bits and is computed as float, rounded after each operation. */
static inline float bp_half_to_float(uint16_t h) {
    union { uint32_t u; float f; } r;
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu;
    if (rest >= 0x7c00u) {
        r.u = sign | 0x7f800000u | ((rest & 0x3ffu) << 13);
    } else {
        r.u = rest << 13;
        r.f *= 5.192296858534828e33f; /* 2^112, as C++ has it too */
        r.u |= sign;
    }
    return r.f;
}

static inline uint16_t bp_float_to_half(float f) {
    union { float f; uint32_t u; } r = {f};
    const uint32_t sign = (r.u >> 16) & 0x8000u;
    r.u &= 0x7fffffffu;
    if (r.u > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((r.u >> 13) & 0x3ffu));
    if (r.u >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
    if (r.u < 0x38800000u) {
        r.f += 0.5f; /* the sum rounds to a multiple of 2^-24 */
        return (uint16_t)(sign | (r.u - 0x3f000000u));
    }
    return (uint16_t)(sign | ((r.u - 0x38000000u + 0xfffu + ((r.u >> 13) & 1u)) >> 13));
}

static inline float bp_round_half(float f) { return bp_half_to_float(bp_float_to_half(f)); }
