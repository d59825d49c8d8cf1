"""Pipeline.add_requirement."""

from __future__ import annotations

import pytest

import bayplan as hl


def test_a_requirement_ends_the_call_with_its_message() -> None:
    x = hl.Var("x")
    p = hl.Param(hl.Int(32), "p")
    f = hl.Func("f")
    f[x] = x + p
    pipeline = hl.Pipeline(f)
    pipeline.add_requirement(p < 10, "p {is} too large:", p, "is not below", 10)
    p.set(3)
    assert list(pipeline.realize([3])) == [3, 4, 5]
    p.set(12)
    with pytest.raises(hl.RequirementFailed, match=r"p \{is\} too large: 12 is not below 10"):
        pipeline.realize([3])
    with pytest.raises(hl.TypeMismatchError, match="is a bool"):
        pipeline.add_requirement(p)
