/* Exchanges between 32 lanes of a subgroup, of which it has a multiple. */
#if defined(cl_khr_subgroup_shuffle)
#define BP_SHUFFLE sub_group_shuffle
#elif defined(cl_intel_subgroups)
#define BP_SHUFFLE intel_sub_group_shuffle
#else
#error "the program lets lanes exchange elements, which this device cannot do"
#endif
#if defined(cl_intel_required_subgroup_size)
#define BP_WARPS __attribute__((intel_reqd_sub_group_size(32)))
#else
#define BP_WARPS
#endif
#define BP_LANE get_sub_group_local_id()
#define bp_shuffle(value, lane) BP_SHUFFLE(value, (BP_LANE & ~31u) + (uint)(lane))
#define bp_shuffle_up(value, n) BP_SHUFFLE(value, BP_LANE - (uint)(n))
#define bp_shuffle_down(value, n) BP_SHUFFLE(value, BP_LANE + (uint)(n))
#define bp_shuffle_xor(value, n) BP_SHUFFLE(value, BP_LANE ^ (uint)(n))
