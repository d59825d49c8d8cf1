"""The operations that are Calls of kind INTRINSIC or PURE_INTRINSIC, with their meaning.

Every pass and target that treats intrinsics by name takes the names from here. Operands of
narrow integers are in their own type; "widened" means twice the bits.
"""

from __future__ import annotations

from typing import Final

PURE: Final[dict[str, str]] = {
    "abs": "absolute value; of intN the result is uintN",
    "absd": "|a - b| without overflow; of intN the result is uintN",
    "bitwise_and": "a & b",
    "bitwise_or": "a | b",
    "bitwise_xor": "a ^ b",
    "bitwise_not": "~a",
    "shift_left": "a << b; a negative b shifts right",
    "shift_right": "a >> b, arithmetic for signed a; a negative b shifts left",
    "count_leading_zeros": "leading zero bits of a",
    "count_trailing_zeros": "trailing zero bits of a",
    "popcount": "one bits of a",
    "reinterpret": "the bits of a as the type of the call",
    "lerp": "a (1 - w) + b w; integers exact and rounded, w unsigned spans 0..1",
    "fma": "a * b + c with one rounding",
    "widening_add": "widen(a) + widen(b)",
    "widening_sub": "widen(a) - widen(b), signed",
    "widening_mul": "widen(a) * widen(b)",
    "widening_shift_left": "widen(a) << b",
    "widening_shift_right": "widen(a) >> b",
    "widen_right_add": "a + widen(b)",
    "widen_right_sub": "a - widen(b)",
    "widen_right_mul": "a * widen(b)",
    "saturating_add": "a + b clamped to the type",
    "saturating_sub": "a - b clamped to the type",
    "saturating_cast": "a clamped to the type of the call, then converted",
    "halving_add": "(widen(a) + widen(b)) / 2 narrowed",
    "halving_sub": "(widen(a) - widen(b)) / 2 narrowed",
    "rounding_halving_add": "(widen(a) + widen(b) + 1) / 2 narrowed",
    "rounding_shift_left": "widening shift left with rounding, saturating narrowed",
    "rounding_shift_right": "(widen(a) + (1 << (b - 1))) >> b narrowed",
    "mul_shift_right": "saturating narrow of (widen(a) * widen(b)) >> c",
    "rounding_mul_shift_right": "as mul_shift_right, rounding",
    "div_round_to_zero": "a / b truncated toward zero, b not 0",
    "mod_round_to_zero": "remainder of div_round_to_zero",
    "likely": "a; in a condition or min/max: nearly always so",
    "likely_if_innermost": "as likely, only in an innermost loop",
    "undef": "no value: a store of it is not done",
    "if_then_else": "c ? a : b where only the taken side is evaluated (b optional)",
    "return_second": "b, after a has been evaluated",
    "promise_clamped": "a, which the user promises to lie in [b, c]",
    "unsafe_promise_clamped": "a, taken to lie in [b, c] by bounds inference alone",
    "strict_float": "a, whose operations keep their order and rounding",
    "random_float": "float32 in [0, 1) that depends on all arguments",
    "random_int": "int32 that depends on all arguments",
    "random_uint": "uint32 that depends on all arguments",
}

IMPURE: Final[dict[str, str]] = {
    "print": "prints its arguments and a newline, gives the first",
    "print_when": "as print of the other arguments where the first holds, gives the second",
    "require": "require(condition, value, message...): value, or the call ends with the message",
    "prefetch": "hint to the cache",
    "atomic_marker": "internal",
}

HOST: Final[dict[str, str]] = {
    "buffer_is_bounds_query": "(name): bool, its host pointer is null: only asked for size",
    "buffer_set_bounds": "(name, dim, min, extent, stride): writes one dimension of the buffer",
    "buffer_host_is_null": "(name): bool",
    "buffer_host_address": "(name): uint64, the address of the first element",
    "buffers_overlap": "(name, name): bool, some byte belongs to an element of both buffers",
    "buffers_coincide": "(name, name): bool, same address, mins and strides of both buffers",
    "return_from_call": "(): ends the call at once, successfully",
}
"""Calls of kind INTRINSIC about buffers of the call, named by StringImm; in the prologue only."""

STORAGE: Final[dict[str, str]] = {
    "offset_pointer": "(arena, bytes): handle, the address so many bytes behind the arena's begin",
    "output_or_offset_pointer": "(condition, output, arena, bytes): handle, the address of the "
    "output's first element where the condition holds, else as offset_pointer",
    "size_in_bytes": "(element bytes, padding, extent...): int64, (product of extents + padding) * "
    "element bytes, 0 where an extent is, -1 where there are more than 2^31 - 1 elements",
    "largest_over": "(loop, min, extent, value): the largest value over the loop; 0 where empty",
    "place_storage": "(bytes...): int64, bytes of the arena in which the Placement `target` puts "
    "temporaries of these sizes",
    "placed_offset": "(i): int64, the offset that place_storage of the same target gave the i-th",
    "parallel_slots": "(extent): int32, the most tasks that a loop of so many iterations runs "
    "at once",
    "worker_slot": "(): int32, the number of this task among those that run at once, from 0",
    "begin_life": "(name, bytes): int32, of builds with guards: the life of an alias begins",
    "end_life": "(name): int32, of builds with guards: it ends",
}
"""Calls of kind INTRINSIC that the storage plan makes."""

DEVICE: Final[dict[str, str]] = {
    "gpu_thread_barrier": "(fence): int32, the threads of a block wait for each other; what was "
    "written before to shared (1) and global (2) memory is seen by all behind it",
    "device_copy_in": "(name): int32, the device's bytes of a buffer or of a temporary with two "
    "homes become true: copied where the host's are newer",
    "device_copy_out": "(name): int32, the host's bytes become true",
    "device_written": "(name): int32, the device's bytes are newer from here on",
    "host_written": "(name): int32, the host's bytes are newer from here on",
    "device_shared_limit": "(): int64, the most bytes of shared memory that a block may ask for",
    "warp_shuffle": "(value, lane, lanes): the value that this lane of the warp has here, at the "
    "same time; the first `lanes` lanes of the warp come here together",
    "warp_shuffle_up": "(value, n, lanes): that of the lane n before this one; any for the first n",
    "warp_shuffle_down": "(value, n, lanes): that of the lane n behind this one; any for the last",
    "warp_shuffle_xor": "(value, n, lanes): that of the lane with the number of this one ^ n",
}
"""Calls of kind INTRINSIC about devices; the name is a StringImm. A warp_shuffle is the value of a
LetStmt, where all of its lanes come."""

EXTERN: Final[dict[str, str]] = {
    "extern_value": "(argument...): the value number value_index that the C function `target` "
    "computes; only in definitions, before its loops are gone",
    "call_extern": "(argument..., output..., required...): int32, calls the C function `target`; "
    "a result other than 0 ends the call",
    "read_buffer": "(element, min, extent, stride...): handle, a buffer that begins at the element "
    "(a call of a Func or image, later a Load, which is not evaluated); of a Func its region is "
    "read",
    "written_buffer": "as read_buffer, of the Func that is computed; its region is written",
    "required_region": "as read_buffer, of an image: says what is read of it, and is not passed",
    "callee_workspace": "(lines): handle, the memory of a callee's temporaries, so many times 64 "
    "bytes; later (element, lines), as a buffer begins",
    "callee_lines": "(value...): int32, the size of the workspace of the Callee `target`, whose "
    "size_parameters have these values, in lines of 64 bytes; too large ones stay too large",
    "give_bytes": "(bytes): int32, hands the bytes of a workspace to who asked for them",
    "query_extern": "(query_buffer or scalar...): handle, asks the C function `target` which "
    "regions it needs; a result other than 0 ends the call",
    "query_buffer": "(zero of the element type, min, extent, stride...): handle, a buffer without "
    "memory",
    "query_result": "(query, dimension, field): int32, min or extent of a dimension as the "
    "function left it; dimensions of all its buffers counted in order",
}
"""Calls about stages that C functions compute; all but the buffers are of kind INTRINSIC."""

MATHS: Final[frozenset[str]] = frozenset(
    [
        "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh",
        "acosh", "atanh", "sqrt", "exp", "log", "pow", "floor", "ceil", "round", "trunc",
        "is_nan", "is_inf", "is_finite", "fast_exp", "fast_log", "fast_pow", "fast_sin",
        "fast_cos", "fast_inverse", "fast_inverse_sqrt", "fast_atan", "fast_atan2", "fast_tanh",
        "hypot", "erf",
    ]
)
"""Calls of kind PURE_EXTERN on floats (float16 is computed in float32)."""
