"""Instances, their references and tours: reading, writing, generating."""

from nco.data.files import read_any, read_entries, write_folder
from nco.data.sets import Entry, read_set, read_set_tours, write_set
from nco.data.tours import read_routes, read_solution, read_tour, write_routes, write_solution, write_tour
from nco.data.tsplib import read_instance, with_rounding, write_instance

__all__ = [
    "Entry",
    "read_any",
    "read_entries",
    "read_instance",
    "read_routes",
    "read_set",
    "read_set_tours",
    "read_solution",
    "read_tour",
    "with_rounding",
    "write_folder",
    "write_instance",
    "write_routes",
    "write_set",
    "write_solution",
    "write_tour",
]
