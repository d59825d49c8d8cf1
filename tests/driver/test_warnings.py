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
