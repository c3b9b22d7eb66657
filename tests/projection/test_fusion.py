"""Wrappers of scorers: projection, multi-view decision fusion, pieces, and the best of eight views."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from nco.instance import Instance, InstanceBatch
from nco.projection.decisions import decision_points, moved
from nco.projection.fusion import append_best_of_views, fused, in_pieces, projected
from nco.projection.maps import MAPS, identity
from nco.search.appending import append_greedily
from nco.search.candidates import Candidates, nearest_first
from nco.search.window import Window
from nco.solution import routes_cost


def candidates(problem: str, rows: int = 3, k: int = 5) -> Candidates:
    """Return random decisions of a solver that appends; the last row has a candidate less."""
    generator = torch.Generator().manual_seed(1)
    numbers = 2 if problem == "tsp" else 3
    mask = torch.ones(rows, k, dtype=torch.bool)
    mask[-1, -1] = False
    ends = torch.rand(2, rows, numbers, generator=generator)
    nodes = torch.rand(rows, k, numbers, generator=generator)
    if problem == "tsp":
        return Candidates(ends[0], ends[1], nodes, mask)
    return Candidates(ends[0], ends[1], nodes, mask, torch.rand(rows, generator=generator), mask.clone())


def window(problem: str, rows: int = 3) -> Window:
    """Return random decisions of a solver that inserts, the last position of a CVRP being the new route."""
    generator = torch.Generator().manual_seed(2)
    numbers = 2 if problem == "tsp" else 3
    left, right = torch.rand(2, rows, 4, numbers, generator=generator)
    if problem == "cvrp":
        right[:, -1] = left[:, -1]
    seen = torch.ones(rows, 4, dtype=torch.bool)
    return Window(
        torch.rand(rows, numbers, generator=generator),
        torch.rand(rows, 2, numbers, generator=generator),
        torch.ones(rows, 2, dtype=torch.bool),
        left,
        right,
        seen,
        seen,
        torch.rand(rows, 4, generator=generator) if problem == "cvrp" else None,
    )


DECISIONS = [candidates("tsp"), candidates("cvrp"), window("tsp"), window("cvrp")]


@pytest.mark.parametrize("decision", DECISIONS)
def test_moving_nodes_to_where_they_are_changes_nothing(decision: Candidates | Window) -> None:
    """Points go back to the nodes that they came from, and everything else stays."""
    points, mask = decision_points(decision)
    assert points.shape[:2] == mask.shape
    same = moved(decision, points)
    for name, value in vars(decision).items():
        assert value is None or torch.equal(getattr(same, name), value), name


@pytest.mark.parametrize("decision", DECISIONS)
def test_a_projected_scorer_sees_mapped_places_and_the_same_demands(decision: Candidates | Window) -> None:
    """Coordinates are the map's, all other numbers the instance's."""
    seen: list[Candidates | Window] = []

    def score(shown: Candidates | Window) -> Tensor:
        seen.append(shown)
        return torch.zeros(len(shown), 1)

    projected(score, MAPS["seed"])(decision)
    points, mask = decision_points(decision)
    shown, _ = decision_points(seen[0])
    torch.testing.assert_close(shown[mask], MAPS["seed"](points, mask)[mask])
    for name, value in vars(decision).items():
        if value is not None and value.dtype.is_floating_point:
            kept = slice(2, None) if value.ndim > 1 and name != "remaining" else slice(None)
            assert torch.equal(getattr(seen[0], name)[..., kept], value[..., kept]), name


def asymmetric(decision: Candidates) -> Tensor:
    """Score candidates by something that no symmetry of the square keeps."""
    x, y = decision.nodes[..., 0], decision.nodes[..., 1]
    score = (3 * x + y * y - decision.last[:, :1] * x).masked_fill(~decision.mask, -torch.inf)
    if decision.fits is None:
        return score
    return torch.cat([score.masked_fill(~decision.fits, -torch.inf), score * decision.remaining[:, None]], dim=1)  # type: ignore[index]


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_fusion_sums_the_scores_of_eight_views(problem: str) -> None:
    """Against a loop over the eight images, written out; forbidden moves stay forbidden."""
    decision = candidates(problem)
    total = torch.zeros(3, 5 if problem == "tsp" else 10)
    for swap in (False, True):
        for flip_x in (False, True):
            for flip_y in (False, True):

                def image(nodes: Tensor, swap=swap, flip_x=flip_x, flip_y=flip_y) -> Tensor:  # type: ignore[no-untyped-def]
                    x, y, rest = nodes[..., :1], nodes[..., 1:2], nodes[..., 2:]
                    x, y = (y, x) if swap else (x, y)
                    return torch.cat([1 - x if flip_x else x, 1 - y if flip_y else y, rest], dim=-1)

                view = Candidates(
                    image(decision.first),
                    image(decision.last),
                    image(decision.nodes),
                    decision.mask,
                    decision.remaining,
                    decision.fits,
                )
                total += asymmetric(view)
    torch.testing.assert_close(fused(asymmetric)(decision), total)


def test_fusion_makes_decisions_independent_of_the_square_s_symmetries() -> None:
    """A mirrored decision has the same fused scores."""
    decision = candidates("tsp")
    points, _ = decision_points(decision)
    mirrored = moved(decision, torch.stack([points[..., 1], 1 - points[..., 0]], dim=-1))
    torch.testing.assert_close(fused(asymmetric)(mirrored), fused(asymmetric)(decision))


def test_pieces_of_rows_give_the_same_scores() -> None:
    """No call has more rows than allowed, and the scores come back in order."""
    decision = candidates("cvrp", rows=7)
    sizes: list[int] = []

    def score(piece: Candidates) -> Tensor:
        sizes.append(len(piece))
        return asymmetric(piece)

    assert torch.equal(in_pieces(score, 3)(decision), asymmetric(decision))
    assert sizes == [3, 3, 1]


def test_the_best_of_eight_views_is_the_shortest_of_eight_tours() -> None:
    """In the instance's own metric, and never longer than the tour of the first view."""
    rng = np.random.default_rng(0)
    instances = [Instance(f"{row}", "tsp", 1_000 * rng.random((30, 2)), "EUC_2D") for row in range(3)]
    batch = InstanceBatch.from_instances(instances)
    scorer = projected(asymmetric, identity)
    best = append_best_of_views(instances, batch, scorer, 6)
    views = append_greedily(batch.symmetries(), scorer, 6).view(8, 3, 30)
    for row, instance in enumerate(instances):
        costs = [routes_cost(instance, [tour.numpy()]) for tour in views[:, row]]
        assert routes_cost(instance, [best[row].numpy()]) == min(costs) < costs[0]


def test_a_map_that_keeps_the_order_of_distances_keeps_nearest_neighbour_tours() -> None:
    """Decoding by distance through a similarity of the plane."""
    batch = InstanceBatch(torch.rand(2, 40, 2, generator=torch.Generator().manual_seed(0)))
    through_box = projected(nearest_first, MAPS["zoom"])
    assert torch.equal(append_greedily(batch, through_box, 8), append_greedily(batch, nearest_first, 8))
