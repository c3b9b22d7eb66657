from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from nco.data.generators import make_generator
from nco.data.sets import write_set
from nco.data.sources import GeneratorSource, SetSource, make_source
from nco.errors import UsageError


def test_each_instance_has_the_seed_of_its_number() -> None:
    """Instance r is what the generator draws from the seed [seed, r], whatever is asked for beside it."""
    source = GeneratorSource("rotation", "cvrp", 12, seed=4, count=9, options={"capacity": 15, "fraction": 0.3})
    generator = make_generator("rotation", "cvrp", 12, capacity=15, fraction=0.3)
    for number, instance in zip((5, 6), source.instances(5, 7), strict=True):
        [expected] = generator(np.random.default_rng([4, number]), 1)
        np.testing.assert_array_equal(instance.coords, expected.coords)  # type: ignore[arg-type]
        np.testing.assert_array_equal(instance.demand, expected.demand)  # type: ignore[arg-type]
        assert instance.name == f"cvrp12-rotation-{number}"


def test_parts_end_with_the_source() -> None:
    """Asking beyond the end gives what there is."""
    assert len(GeneratorSource("uniform", "tsp", 5, seed=1, count=9).instances(6, 20)) == 3


@pytest.mark.parametrize("change", [{"seed": -1}, {"count": 0}, {"name": "triangle"}, {"options": {"clusters": 2}}])
def test_impossible_sources_are_refused(change) -> None:
    """Wrong arguments are refused when the source is made, not when the first instance is drawn."""
    arguments = {"name": "uniform", "problem": "tsp", "size": 5, "seed": 1, "count": 9}
    with pytest.raises(UsageError):
        GeneratorSource(**{**arguments, **change})


def test_description_survives_json(tmp_path: Path) -> None:
    """Described in JSON and made again, a source has the same instances."""
    generated = GeneratorSource("x", "cvrp", 20, seed=1, count=3, options={"demand": "SL"})
    write_set(GeneratorSource("uniform", "tsp", 5, seed=1, count=2).instances(0, 2), tmp_path / "set.npz")
    for source in (generated, SetSource(tmp_path / "set.npz")):
        again = make_source(json.loads(json.dumps(source.describe())))
        assert again.count == source.count
        for one, other in zip(source.instances(0, 3), again.instances(0, 3), strict=True):
            np.testing.assert_array_equal(one.coords, other.coords)  # type: ignore[arg-type]


def test_missing_set_is_named(tmp_path: Path) -> None:
    """A source whose set file is gone says so."""
    write_set(GeneratorSource("uniform", "tsp", 5, seed=1, count=2).instances(0, 2), tmp_path / "set.npz")
    description = SetSource(tmp_path / "set.npz").describe()
    (tmp_path / "set.npz").unlink()
    with pytest.raises(UsageError, match=r"set\.npz is not there"):
        make_source(description)


def test_unknown_source_is_refused() -> None:
    """A description of another kind is an error."""
    with pytest.raises(UsageError, match="no source"):
        make_source({"kind": "oracle"})
