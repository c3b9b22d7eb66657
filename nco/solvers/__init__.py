"""Solvers behind one protocol: neural solvers, LKH, HGS, PyVRP, OR-Tools, fast-tsp and simple heuristics."""

from nco.solvers.base import Progress, Solver, make_solver, register, solver_names, solver_table

__all__ = ["Progress", "Solver", "make_solver", "register", "solver_names", "solver_table"]
