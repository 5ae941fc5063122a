"""A start is measured in a clean process."""

from types import SimpleNamespace

import pytest

from ngem.bench import start


def test_a_cold_start_uses_no_compiled_programs_and_reports_errors(monkeypatch):
    calls = []

    def run(command, **settings):
        calls.append((command, settings))
        return SimpleNamespace(returncode=len(calls) - 1, stderr="Traceback\nValueError: no rows")

    monkeypatch.setattr(start.subprocess, "run", run)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "somewhere")
    turn = start.cold(rows=5, features=2)
    assert turn() >= 0
    command, settings = calls[0]
    assert "first_epoch(5, 2)" in command[-1]
    assert "PATH" in settings["env"]
    assert "JAX_COMPILATION_CACHE_DIR" not in settings["env"]
    with pytest.raises(RuntimeError, match="a first fit failed: ValueError: no rows"):
        turn()
