"""Fixtures of the tests of solvers."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture
def nothing_installed(monkeypatch):
    """Hide all packages and executables that solvers look for."""
    for module in ("LKHpy", "elkai", "hygese", "hybgensea", "pyvrp", "fast_tsp", "ortools"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("LKH_EXE", raising=False)
