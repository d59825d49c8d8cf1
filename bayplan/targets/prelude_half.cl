/* float16 lies in memory as 16 bits and is computed as float, rounded after each operation. */
BP_INLINE float bp_half_to_float(uint16_t h) { return vload_half(0, (const half *)&h); }

BP_INLINE uint16_t bp_float_to_half(float f) {
    uint16_t h;
    vstore_half_rte(f, 0, (half *)&h);
    return h;
}

BP_INLINE float bp_round_half(float f) { return bp_half_to_float(bp_float_to_half(f)); }
