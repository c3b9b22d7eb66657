"""The fakes for the tests of this folder."""

from fake_solvers import fakes

__all__ = ["fakes"]
