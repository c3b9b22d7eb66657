"""Packages of the distribution; everything else about it is in pyproject.toml.

The shelves - pretrained models, data, recipes, suites, scripts - lie beside the package in a checkout and inside it,
under ``nco/_shelves``, in a wheel. :func:`nco.shelf` finds them in either place.
"""

from setuptools import find_packages, setup

SHELVES = ("models", "data", "trainers", "eval", "scripts")

setup(
    packages=[*find_packages(include=["nco", "nco.*"]), *(f"nco._shelves.{shelf}" for shelf in SHELVES)],
    package_dir={f"nco._shelves.{shelf}": shelf for shelf in SHELVES},
    package_data={"nco": ["py.typed"], **{f"nco._shelves.{shelf}": ["**/*"] for shelf in SHELVES}},
)
