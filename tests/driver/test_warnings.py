"""What lowering has to say reaches the user, at his line."""

from __future__ import annotations

import pytest

import bayplan as hl


def test_an_update_without_a_schedule_warns_at_the_call() -> None:
    x, f = hl.Var("x"), hl.Func("f")
    f[x] = x
    f[x] += 1
    f.vectorize(x, 4)
    with pytest.warns(RuntimeWarning, match=r"update\(0\) of f.* has no schedule") as caught:
        f.realize([8])
    assert caught[0].filename == __file__


def test_a_program_without_faults_does_not(recwarn: pytest.WarningsRecorder) -> None:
    x, f = hl.Var("x"), hl.Func("f")
    f[x] = x
    f.vectorize(x, 4)
    f.realize([8])
    assert not [w for w in recwarn if "bayplan" in str(w.filename) or w.filename == __file__]


def test_a_report_says_what_holds_for_its_target(recwarn: pytest.WarningsRecorder) -> None:
    x, wide, out = hl.Var("x"), hl.Func("wide"), hl.Func("out")
    wide[x] = x * 3
    out[x] = wide[x] + wide[29999 - x]
    wide.compute_root().bound(x, 0, 30000).store_in(hl.MemoryType.Stack)
    target = hl.get_host_target().with_stack_budget(1 << 17)
    assert hl.Pipeline(out).storage([30000], target=target)["wide"].kind == "stack"
    assert not [w for w in recwarn if "asked Stack" in str(w.message)]
