"""Local search and iterated local search for TSP tours against brute force and exact optima."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nco.search.insertion import random_insertion
from nco.search.space import Space, dense, neighbour_lists, plane
from nco.search.tsp_descent import draw_cuts
from nco.search.tsp_local_search import _Search, iterated_local_search, local_search, local_search_many
from nco.search.tsp_moves import double_bridge, undo

SETTINGS = settings(derandomize=True, deadline=None, max_examples=40)


def points(num_nodes: int, seed: int = 0) -> np.ndarray:
    """Return uniform points in the unit square."""
    return np.random.default_rng(seed).random((num_nodes, 2))


def matrix_of(coords: np.ndarray) -> np.ndarray:
    """Return all Euclidean distances."""
    return np.linalg.norm(coords[:, None] - coords[None], axis=-1)


def length(matrix: np.ndarray, tour: np.ndarray) -> float:
    """Return the length of a closed tour."""
    return float(matrix[tour, np.roll(tour, -1)].sum())


def neighbour_tours(tour: list[int]) -> Iterator[list[int]]:
    """Yield all tours that one 2-opt or Or-opt move makes, segments of up to three nodes, both ways round."""
    size = len(tour)
    for i in range(size - 1):
        for j in range(i + 2, size + 1):
            yield tour[:i] + tour[i:j][::-1] + tour[j:]
    for turn in range(size):
        turned = tour[turn:] + tour[:turn]
        for count in range(1, min(3, size - 3) + 1):
            segment, rest = turned[:count], turned[count:]
            for place in range(1, len(rest)):
                yield rest[:place] + segment + rest[place:]
                yield rest[:place] + segment[::-1] + rest[place:]


def optimum(matrix: np.ndarray) -> float:
    """Return the length of a shortest tour, by trying all."""
    return min(length(matrix, np.array((0, *order))) for order in permutations(range(1, len(matrix))))


@st.composite
def coordinates(draw: st.DrawFn, least: int = 2, most: int = 14) -> np.ndarray:
    """Draw points, of which many coincide or lie on lines."""
    grid = draw(st.integers(1, 6))
    size = draw(st.integers(least, most))
    cells = draw(st.lists(st.tuples(st.integers(0, grid), st.integers(0, grid)), min_size=size, max_size=size))
    return np.array(cells, dtype=np.float64)


@pytest.mark.parametrize(("num_nodes", "seed"), [(n, seed) for n in (5, 6, 8, 13, 25) for seed in range(4)])
def test_no_improving_move_is_left(num_nodes: int, seed: int) -> None:
    """With full neighbour lists, no 2-opt or Or-opt move of all there are shortens the tour that is found."""
    coords = points(num_nodes, seed)
    space = plane(coords)
    start = np.random.default_rng(seed).permutation(num_nodes)
    tour = local_search(space, start, neighbour_lists(space, num_nodes)).tour
    matrix = matrix_of(coords)
    best = min(length(matrix, np.array(other)) for other in neighbour_tours(tour.tolist()))
    assert best >= length(matrix, tour) - 1e-9


def test_no_improving_move_is_left_within_the_lists() -> None:
    """With short lists, no 2-opt or Or-opt move whose new edges are all in the lists of both ends shortens the tour."""
    coords = points(60, 3)
    space = plane(coords)
    lists = neighbour_lists(space, 6)
    near = np.zeros((60, 60), dtype=bool)
    near[np.arange(60)[:, None], lists] = True
    near &= near.T
    tour = local_search(space, np.random.default_rng(1).permutation(60), lists).tour
    matrix = matrix_of(coords)
    old = {frozenset(edge) for edge in zip(tour.tolist(), np.roll(tour, -1).tolist(), strict=True)}
    checked = 0
    for other in neighbour_tours(tour.tolist()):
        new = {frozenset(edge) for edge in zip(other, other[1:] + other[:1], strict=True)} - old
        if all(near[tuple(edge)] for edge in new):
            checked += bool(new)
            assert length(matrix, np.array(other)) >= length(matrix, tour) - 1e-9
    assert checked > 100


@given(coordinates(), st.integers(0, 1000))
@SETTINGS
def test_searches_keep_the_permutation_and_count_right(coords: np.ndarray, seed: int) -> None:
    """Coinciding and collinear points included: a permutation, the length claimed, and never a longer tour."""
    size = len(coords)
    matrix = matrix_of(coords)
    start = np.random.default_rng(seed).permutation(size)
    space = plane(coords)
    for result in (
        local_search(space, start),
        iterated_local_search(space, start, rng=np.random.default_rng(seed), iterations=60, temperature=2.0),
    ):
        assert np.array_equal(np.sort(result.tour), np.arange(size))
        assert result.length == pytest.approx(length(matrix, result.tour), abs=1e-9)
        assert result.length <= length(matrix, start) + 1e-9


@pytest.mark.parametrize("num_nodes", [4, 5, 6, 7, 8])
def test_iterated_search_finds_the_optimum_of_tiny_instances(num_nodes: int) -> None:
    """Uniform points, five seeds each."""
    for seed in range(5):
        coords = points(num_nodes, 100 * num_nodes + seed)
        rng = np.random.default_rng(seed)
        result = iterated_local_search(plane(coords), rng.permutation(num_nodes), rng=rng, iterations=200)
        assert result.length == pytest.approx(optimum(matrix_of(coords)))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_kicks_improve_on_local_search(temperature: float) -> None:
    """From the same start, 4,000 kicks find tours that are shorter by more than 2 percent at 200 nodes."""
    coords = points(200, 5)
    space = plane(coords)
    start = random_insertion(coords, np.random.default_rng(0))
    settled = local_search(space, start).length
    rng = np.random.default_rng(0)
    result = iterated_local_search(space, start, rng=rng, iterations=4000, temperature=temperature)
    assert result.iterations == 4000
    assert result.length < 0.98 * settled
    lengths = [point[1] for point in result.trace]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[-1] == pytest.approx(result.length)


def test_an_optimal_start_is_kept_at_any_temperature() -> None:
    """Nodes on a circle in their order: however hot the search, what it returns is no longer."""
    angle = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    coords = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    rng = np.random.default_rng(0)
    result = iterated_local_search(plane(coords), np.arange(40), rng=rng, iterations=100, temperature=100.0)
    assert result.length == pytest.approx(80 * np.sin(np.pi / 40))


def test_the_same_seed_gives_the_same_tour() -> None:
    """And another seed another one."""
    coords = points(300, 1)
    space, start = plane(coords), np.arange(300)
    first, again, other = (
        iterated_local_search(space, start, rng=np.random.default_rng(seed), iterations=500).tour for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_matrix_and_the_plane_agree() -> None:
    """The same distances as a matrix and by formula lead to tours of nearly one length."""
    coords = points(80, 2)
    found = [
        iterated_local_search(space, np.arange(80), rng=np.random.default_rng(0), iterations=3000).length
        for space in (plane(coords), dense(matrix_of(coords)))
    ]
    assert found[0] == pytest.approx(found[1], rel=0.01)


@pytest.mark.parametrize("space", [plane(np.zeros((3, 2))), dense(np.zeros((3, 3)))])
def test_three_nodes_have_one_tour(space: Space) -> None:
    """Nothing to search, and nothing goes wrong."""
    result = iterated_local_search(space, [2, 0, 1], rng=np.random.default_rng(0), iterations=10)
    assert sorted(result.tour) == [0, 1, 2]
    assert result.iterations == 0


@given(st.integers(5, 40), st.integers(0, 2**32))
@SETTINGS
def test_a_kick_swaps_segments_and_is_undone(size: int, seed: int) -> None:
    """A double bridge makes the cycle of the definition, changes the length by what it says, and undo restores it."""
    coords = points(size, seed)
    space, matrix = plane(coords), matrix_of(coords)
    order = np.random.default_rng(seed).permutation(size).astype(np.int32)
    position = np.argsort(order).astype(np.int32)
    before = order.copy()
    log, cuts = np.zeros((9, 2), np.int32), np.zeros(4, np.int64)
    draw_cuts(np.array([seed], np.uint64), size, cuts)
    turned = np.roll(before, -cuts[0])
    gaps = (cuts - cuts[0]) % size
    assert len(set(cuts.tolist())) == 4
    assert sorted(gaps) == list(gaps)
    change, _ = double_bridge(space, order, position, log, cuts)
    a, b, c = (turned[gaps[i] + 1 : gaps[i + 1] + 1] for i in range(3))
    expected = np.concatenate([turned[:1], c, b, a, turned[gaps[3] + 1 :]])
    start = int(position[expected[0]])
    assert any(np.array_equal(np.roll(walk, -place), expected) for walk, place in _both_ways(order, start))
    assert change == pytest.approx(length(matrix, expected) - length(matrix, before))
    undo(order, position, log)
    assert np.array_equal(order, before)
    assert np.array_equal(position[order], np.arange(size))


def _both_ways(order: np.ndarray, start: int) -> list[tuple[np.ndarray, int]]:
    return [(order, start), (order[::-1], len(order) - 1 - start)]


def test_rejected_kicks_leave_no_trace() -> None:
    """At temperature 0 the tour after any number of kicks has the length that the changes add up to."""
    coords = points(500, 7)
    search = _Search(plane(coords), np.arange(500), None)
    search.settle()
    lengths = [search.length]
    for _ in range(20):
        search.perturb(np.array([len(lengths)], np.uint64), 50, 0.0)
        lengths.append(search.length)
        assert search.length == pytest.approx(length(matrix_of(coords), search.tour()))
    assert lengths == sorted(lengths, reverse=True)


def test_a_time_limit_stops_the_search() -> None:
    """With no time at all the start comes back; with some, kicks were made without a number of iterations."""
    coords = points(50)
    space, start = plane(coords), np.arange(50)
    result = iterated_local_search(space, start, rng=np.random.default_rng(0), iterations=10**9, time_limit=0.0)
    assert result.iterations == 0
    result = iterated_local_search(space, start, rng=np.random.default_rng(0), time_limit=0.2)
    assert result.iterations > 0


@pytest.mark.parametrize("threads", [1, 3])
def test_many_tours_are_those_of_one_by_one(threads: int) -> None:
    """All ants of two instances, in threads, are as short as each on its own, and within their own rows."""
    coords = [points(40, seed) for seed in (1, 2)]
    spaces = [plane(part) for part in coords]
    rng = np.random.default_rng(0)
    tours = np.stack([[rng.permutation(40) for _ in range(5)] for _ in spaces])
    given_tours = tours.copy()
    found = local_search_many(spaces, tours, threads=threads)
    assert np.array_equal(tours, given_tours)
    assert found.shape == (2, 5, 40)
    for row, space in enumerate(spaces):
        matrix = matrix_of(coords[row])
        for ant in range(5):
            assert np.array_equal(np.sort(found[row, ant]), np.arange(40))
            alone = local_search(space, tours[row, ant]).length
            assert length(matrix, found[row, ant]) == pytest.approx(alone)


@pytest.mark.parametrize(
    ("tour", "lists", "message"),
    [
        ([0, 1, 1, 3, 4], None, "no permutation of the 5 nodes"),
        ([0, 1, 2], None, "no permutation of the 5 nodes"),
        ([0, 1, 2, 3, 4], np.zeros((4, 2), np.int32), "cannot have the shape"),
        ([0, 1, 2, 3, 4], np.full((5, 2), 5, np.int32), "names a node that there is not"),
    ],
)
def test_bad_tours_and_lists_are_refused(tour: list[int], lists: np.ndarray | None, message: str) -> None:
    """Each is named before anything is searched, for one tour and for many."""
    with pytest.raises(ValueError, match=message):
        local_search(plane(points(5)), tour, lists)
    with pytest.raises(ValueError, match=message):
        local_search_many([plane(points(5))], np.array([[tour]]), None if lists is None else [lists])


def test_a_search_without_an_end_is_refused() -> None:
    """Neither iterations nor a time limit is an error, as are numbers of spaces and tours that do not agree."""
    with pytest.raises(ValueError, match="iterations or a time limit"):
        iterated_local_search(plane(points(9)), np.arange(9), rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"2 spaces need tours of the shape \[2, A, N\]"):
        local_search_many([plane(points(5))] * 2, np.zeros((1, 1, 5), np.int64))
