"""The sentence about compilation: once, where somebody waits."""

from __future__ import annotations

import sys

import numba
import pytest

from snapdyn.dynamics.kernels.compilation import COMPILATION


@pytest.mark.parametrize("terminal", [True, False])
def test_a_compilation_is_announced_once(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert one sentence on stderr for two compilations at a terminal, and none elsewhere."""
    monkeypatch.setattr(numba.config, "DISABLE_JIT", False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setattr(COMPILATION, "said", False)
    for shift in (1.0, 2.0):
        assert numba.njit(lambda x, shift=shift: x + shift)(1.0) == 1.0 + shift
    assert capsys.readouterr().err.count("snapdyn: compiling") == terminal
