"""The registry of projection maps."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from nco.errors import UsageError
from nco.projection.maps import seed
from nco.projection.registry import Entry, ProjectionRegistry, read_registry

SHRINK = "def project(points):\n    return points / 2.0\n"


def test_the_shelf_names_the_published_maps_by_size() -> None:
    """Each size has the map that was found for the nearest published one; small TSPs have none."""
    registry = read_registry()
    sizes = (100, 1_000, 5_000, 10_000, 100_000)
    assert [registry.name_for("tsp", size) for size in sizes] == ["none", "tsp1k", "tsp5k", "tsp10k", "tsp10k"]
    assert [registry.name_for("cvrp", size) for size in sizes] == ["cvrp1k", "cvrp1k", "cvrp5k", "cvrp10k", "cvrp10k"]
    assert registry.map("seed") is seed


def test_a_found_program_is_chosen_after_saving_and_reading(tmp_path: Path) -> None:
    """It takes the sizes up to its bound, and runs as a map."""
    path = tmp_path / "projections.yaml"
    read_registry().with_program("shrink", SHRINK, "tsp", 2_000).save(path)
    registry = read_registry(path)
    assert registry.name_for("tsp", 1_000) == "shrink"
    assert registry.name_for("tsp", 5_000) == "tsp5k"
    assert registry.name_for("cvrp", 1_000) == "cvrp1k"
    points = torch.rand(2, 5, 2)
    mask = torch.tensor([[True] * 5, [True, True, False, True, True]])
    assert torch.equal(registry.map("shrink")(points, mask)[mask], points[mask] / 2)


def test_a_program_may_open_a_new_range_of_sizes() -> None:
    """An entry between two others, and one for all larger instances."""
    registry = read_registry()
    between = registry.with_program("shrink", SHRINK, "cvrp", 3_000)
    sizes = (2_000, 2_500, 3_001)
    assert [between.name_for("cvrp", size) for size in sizes] == ["cvrp1k", "shrink", "cvrp5k"]
    assert registry.with_program("shrink", SHRINK, "cvrp", None).name_for("cvrp", 10**6) == "shrink"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("maps: [", "is no registry"),
        ("- 1", "is no registry"),
        ("maps: {tsp: [{map: seed}]}", "maps of cvrp: needs entries"),
        ("maps: {tsp: [{map: seed, up_to: 5}], cvrp: [{map: seed}]}", "maps of tsp: needs entries"),
        ("maps: {tsp: [{map: seed}, {map: none}], cvrp: [{map: seed}]}", "maps of tsp: needs entries"),
        ("maps: {tsp: [{map: no}], cvrp: [{map: seed}]}", "no projection map named"),
        ("maps: {tsp: [{map: seed, size: 3}], cvrp: [{map: seed}]}", "size"),
        ("maps: {tsp: [{map: seed}], cvrp: [{map: seed}]}\nprograms: {seed: x}", "a map of nco has that name"),
    ],
)
def test_files_that_are_no_registry_are_refused(tmp_path: Path, content: str, reason: str) -> None:
    """One clear error that names the file."""
    path = tmp_path / "projections.yaml"
    path.write_text(content)
    with pytest.raises(UsageError, match=reason) as caught:
        read_registry(path)
    assert str(path) in str(caught.value)


def test_unknown_maps_are_refused_with_the_known_ones() -> None:
    """A wrong name lists the maps."""
    registry = ProjectionRegistry({"tsp": (Entry("none"),), "cvrp": (Entry("none"),)})
    with pytest.raises(UsageError, match="no projection map named 'tsp2k'; there are none, seed, tsp1k"):
        registry.map("tsp2k")
