"""Comparisons of solvers: suites, records of every instance and solver, tables, pictures and reports."""
