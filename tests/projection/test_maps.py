"""Projection maps, against the published formulas and their stated properties."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from nco.projection.maps import MAPS, MARGIN, bearing_box, depot_box, rotated_box, zoom

PUBLISHED = ("seed", "tsp1k", "tsp5k", "tsp10k", "cvrp1k", "cvrp5k", "cvrp10k")


def decisions(rows: int = 5, slots: int = 12, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return points of small neighbourhoods with a first node far away, and a full mask."""
    generator = torch.Generator().manual_seed(seed)
    points = torch.rand(rows, slots, 2, generator=generator, dtype=torch.float64)
    points[:, 1:] = 0.1 * points[:, 1:] + 0.8 * torch.rand(rows, 1, 2, generator=generator, dtype=torch.float64)
    return points, torch.ones(rows, slots, dtype=torch.bool)


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("case", ["", "outside.", "degenerate."])
def test_published_maps_give_the_published_numbers(shared: Path, name: str, case: str) -> None:
    """In double precision, for points in the square, far outside of it, all equal and on a line."""
    fixture = load_file(shared / "parity" / "projections.safetensors")
    points = fixture[f"{case}input"]
    shown = MAPS[name](points, torch.ones(points.shape[:2], dtype=torch.bool))
    torch.testing.assert_close(shown, fixture[f"{case}out.{name}"], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", MAPS)
def test_empty_slots_change_nothing(name: str) -> None:
    """A row with padding, whatever it holds, is shown as the same row without."""
    points, mask = decisions()
    padded = torch.cat([points[:, :-1], torch.full((5, 3, 2), 77.0, dtype=torch.float64), points[:, -1:]], dim=1)
    seen = torch.cat([mask[:, :-1], torch.zeros(5, 3, dtype=torch.bool), mask[:, -1:]], dim=1)
    shown = MAPS[name](padded, seen)
    torch.testing.assert_close(shown[seen].view_as(points), MAPS[name](points, mask), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", MAPS)
def test_degenerate_decisions_stay_finite(name: str) -> None:
    """All points equal, one candidate, a line, one candidate at the last node and the depot elsewhere."""
    equal = torch.full((1, 4, 2), 0.3)
    line = torch.tensor([[[0.0, 0.5], [0.1, 0.5], [0.2, 0.5], [0.3, 0.5]]])
    apart = torch.tensor([[[0.0, 0.0], [0.7, 0.7], [0.7, 0.7]]])
    for points in (equal, line, equal[:, :3], apart):
        shown = MAPS[name](points, torch.ones(points.shape[:2], dtype=torch.bool))
        assert shown.shape == points.shape
        assert bool(shown.isfinite().all())


@pytest.mark.parametrize("name", MAPS)
def test_rows_are_shown_on_their_own_and_the_input_stays(name: str) -> None:
    """A row does not depend on the others, and no map writes into its input."""
    points, mask = decisions()
    before = points.clone()
    together = MAPS[name](points, mask)
    alone = torch.cat([MAPS[name](points[row : row + 1], mask[row : row + 1]) for row in range(5)])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-14)
    assert torch.equal(points, before)


@pytest.mark.parametrize("name", ["seed", "tsp1k", "tsp10k", "bearing-box", "rotated-box", "zoom"])
def test_maps_of_the_neighbourhood_do_not_depend_on_place_and_scale(name: str) -> None:
    """Shifted and shrunk decisions are shown as before."""
    points, mask = decisions()
    torch.testing.assert_close(MAPS[name](0.01 * points + 3.0, mask), MAPS[name](points, mask), rtol=0, atol=1e-9)


def bearings(points: Tensor, origin: Tensor) -> Tensor:
    """Return unit vectors from an origin."""
    offset = points - origin
    return offset / offset.norm(dim=-1, keepdim=True)


def test_bearing_box_keeps_the_bearing_of_the_destination() -> None:
    """It lies at the margin of the square, in its direction from the last node; the seed shows it in another."""
    points, mask = decisions()
    shown = bearing_box(points, mask)
    true = bearings(points[:, 0], points[:, -1])
    torch.testing.assert_close(bearings(shown[:, 0], shown[:, -1]), true)
    torch.testing.assert_close(
        (shown[:, 0] - 0.5).abs().amax(dim=-1), torch.full((5,), 0.5 + MARGIN, dtype=torch.float64)
    )
    seed = MAPS["seed"](points, mask)
    assert bool(((bearings(seed[:, 0], seed[:, -1]) - true).abs().amax(dim=-1) > 1e-3).any())


def test_bearing_box_shows_a_near_destination_where_it_is() -> None:
    """Inside the box nothing is stopped: all nodes are shown as the centred box has them."""
    points, mask = decisions()
    points[:, 0] = points[:, 1:].mean(dim=1)
    torch.testing.assert_close(bearing_box(points, mask), MAPS["tsp10k"](points, mask))


def test_rotated_box_lays_a_diagonal_along_an_axis() -> None:
    """Points on a diagonal line are shown on a horizontal one, from edge to edge."""
    line = torch.linspace(0.2, 0.4, 6, dtype=torch.float64)
    points = torch.stack([line, line], dim=-1)[None]
    shown = rotated_box(points, torch.ones(1, 6, dtype=torch.bool))
    torch.testing.assert_close(shown[..., 1], torch.full((1, 6), 0.5, dtype=torch.float64))
    assert shown[0, 1:, 0].min().item() == pytest.approx(0.0)
    assert shown[0, 1:, 0].max().item() == pytest.approx(1.0)


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_depot_boxes_keep_bearings_from_the_depot(power: float) -> None:
    """All nodes lie in the square, in their true directions from the depot; with the power 1 shapes stay."""
    points, mask = decisions()
    shown = depot_box(points, mask, power)
    assert bool(((shown > -1e-12) & (shown < 1 + 1e-12)).all())
    torch.testing.assert_close(bearings(shown[:, 1:], shown[:, :1]), bearings(points[:, 1:], points[:, :1]))
    if power == 1.0:
        ratio = torch.cdist(shown, shown) / torch.cdist(points, points).clamp(min=1e-9)
        scale = ratio[:, 0, 1]
        torch.testing.assert_close(ratio[:, 1:, 0], scale[:, None].expand(-1, 11))


def test_zoom_keeps_candidates_in_shape_and_brings_the_destination_in() -> None:
    """The last node is the centre, the farthest candidate at 1/2, the destination beyond it, but below 1."""
    points, mask = decisions()
    shown = zoom(points, mask)
    distance = (shown - 0.5).norm(dim=-1)
    torch.testing.assert_close(distance[:, -1], torch.zeros(5, dtype=torch.float64))
    torch.testing.assert_close(distance[:, 1:].amax(dim=1), torch.full((5,), 0.5, dtype=torch.float64))
    assert bool(((distance[:, 0] > 0.5) & (distance[:, 0] < 1.0)).all())
    torch.testing.assert_close(bearings(shown[:, 0], shown[:, -1]), bearings(points[:, 0], points[:, -1]))
