from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pytest

from nco.cli import generate
from nco.data import read_any, read_set
from nco.data.sources import GeneratorSource
from nco.errors import UsageError


def command(words: str) -> int:
    """Run ``nco generate`` with some words."""
    parser = argparse.ArgumentParser()
    generate.add_parser(parser.add_subparsers())
    return generate.run(parser.parse_args(["generate", *words.split()]))


def test_written_set_is_the_seeded_source(tmp_path: Path) -> None:
    """The set holds the instances of the source with the same arguments, capacities included."""
    path = tmp_path / "new" / "set.npz"
    words = "--problem cvrp --distribution clustered --size 30 --count 4 --seed 7 --capacity 20 60 --option clusters=2"
    assert command(f"{words} --out {path}") == 0
    options = {"clusters": 2, "capacity": [20, 60]}
    expected = GeneratorSource("clustered", "cvrp", 30, 7, 4, options).instances(0, 4)
    for read, drawn in zip(read_set(path), expected, strict=True):
        np.testing.assert_array_equal(read.coords, drawn.coords)  # type: ignore[arg-type]
        np.testing.assert_array_equal(read.demand, drawn.demand)  # type: ignore[arg-type]
        assert (read.name, read.capacity) == (drawn.name, drawn.capacity)


def test_larger_count_only_adds_instances(tmp_path: Path) -> None:
    """The first instances do not depend on how many there are."""
    for count in (2, 5):
        command(f"--problem tsp --size 10 --count {count} --seed 7 --out {tmp_path}/{count}.npz")
    few, many = read_set(tmp_path / "2.npz"), read_set(tmp_path / "5.npz")
    for one, other in zip(few, many[:2], strict=True):
        np.testing.assert_array_equal(one.coords, other.coords)  # type: ignore[arg-type]


def test_rounded_instances_go_into_a_folder(tmp_path: Path) -> None:
    """Instances of the X generator are written as .vrp files, and read back with their metric."""
    words = "--problem cvrp --distribution x --size 20 --count 2 --seed 1 --option depot=E --route-length 5"
    command(f"{words} --out {tmp_path}/x")
    assert len(list((tmp_path / "x").glob("*.vrp"))) == 2
    options = {"depot": "E", "route_length": 5.0}
    expected = {one.name: one for one in GeneratorSource("x", "cvrp", 20, 1, 2, options).instances(0, 2)}
    for read in read_any(tmp_path / "x"):
        assert read.metric == "EUC_2D"
        assert read.capacity == expected[read.name].capacity
        np.testing.assert_array_equal(read.coords, expected[read.name].coords)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("--problem cvrp --size 33 --count 1 --seed 1 --out set.npz", "no customary capacity"),
        ("--problem tsp --size 33 --count 1 --seed 1 --capacity 9 --out set.npz", "no option 'capacity'"),
        ("--problem tsp --size 33 --count 0 --seed 1 --out set.npz", "count >= 1"),
        ("--problem tsp --size 33 --count 1 --seed 1 --option clusters --out set.npz", "key=value"),
        ("--problem cvrp --distribution x --size 33 --count 1 --seed 1 --out set.npz", "give a folder"),
        ("--problem cvrp --distribution x --size 33 --count 1 --seed 1 --route-length 3 5 --out x", "wrong type"),
    ],
)
def test_impossible_commands_are_refused(words: str, reason: str, tmp_path: Path, monkeypatch) -> None:
    """Nothing is written when the arguments make no sense."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=reason):
        command(words)
    assert not list(tmp_path.iterdir())
