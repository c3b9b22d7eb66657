"""The TSP environment against a list of nodes, exhaustive search and dynamic programming."""

from __future__ import annotations

from itertools import pairwise, permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nco.envs import State, TSPEnv
from nco.errors import InfeasibleSolution
from nco.instance import InstanceBatch

SETTINGS = settings(derandomize=True, deadline=None, max_examples=50)
ENV = TSPEnv()


def random_batch(rows: int, nodes: int, seed: int = 0) -> InstanceBatch:
    """Return uniform instances."""
    return InstanceBatch(torch.rand(rows, nodes, 2, generator=torch.Generator().manual_seed(seed)))


def length(coords: torch.Tensor, tour: list[int]) -> float:
    """Return the length of a closed tour in double precision."""
    points = coords.double()
    return sum(float((points[a] - points[b]).norm()) for a, b in pairwise([*tour, tour[0]]))


def held_karp(coords: torch.Tensor) -> tuple[float, list[int]]:
    """Return the optimal cost and tour by dynamic programming over subsets (Held and Karp 1962)."""
    num_nodes = len(coords)
    distance = torch.cdist(coords.double(), coords.double()).tolist()
    best = {(1 << j, j): (distance[0][j], [0, j]) for j in range(1, num_nodes)}
    for subset in range(2, 1 << num_nodes, 2):
        for j in range(1, num_nodes):
            rest = subset ^ (1 << j)
            if subset >> j & 1 and rest:
                cost, path = min(
                    (best[rest, i][0] + distance[i][j], best[rest, i][1]) for i in range(1, num_nodes) if rest >> i & 1
                )
                best[subset, j] = cost, [*path, j]
    everything = (1 << num_nodes) - 2
    return min((best[everything, j][0] + distance[j][0], best[everything, j][1]) for j in range(1, num_nodes))


class PlainTour:
    """One row's rules on a list that ends with the last node."""

    def __init__(self, num_nodes: int, start: int):
        self.num_nodes = num_nodes
        self.tour = [start]

    def unvisited(self) -> list[int]:
        """Return the nodes that are on no tour."""
        return [node for node in range(self.num_nodes) if node not in self.tour]

    def appendable(self) -> list[int]:
        """Return the legal appends: a finished row repeats its last node."""
        return self.unvisited() or [self.tour[-1]]

    def append(self, node: int) -> None:
        """Put a node at the end."""
        if node not in self.tour:
            self.tour.append(node)

    def insert(self, node: int, left: int) -> None:
        """Put a node behind another one, and let it be the end."""
        i = self.tour.index(left) + 1
        self.tour = self.tour[i:] + self.tour[:i] + [node]

    def remove(self, nodes: list[int]) -> None:
        """Drop nodes."""
        self.tour = [node for node in self.tour if node not in nodes]


def assert_same(state: State, rows: list[PlainTour]) -> None:
    """Compare everything that the environment says of a state with the plain tours."""
    tours, positions = ENV.tours(state), ENV.positions(state)
    costs = ENV.cost(state.batch, tours)
    for b, row in enumerate(rows):
        assert tours[b].tolist() == row.tour + [-1] * (row.num_nodes - len(row.tour))
        assert float(costs[b]) == pytest.approx(length(state.batch.coords[b], row.tour), abs=1e-5)
        assert ENV.append_mask(state)[b].nonzero().flatten().tolist() == sorted(row.appendable())
        assert bool(ENV.done(state)[b]) == (not row.unvisited())
        assert int(state.last[b]) == row.tour[-1]
        edges = zip(positions.left[b].tolist(), positions.right[b].tolist(), positions.valid[b].tolist(), strict=True)
        assert {(left, right) for left, right, valid in edges if valid} == set(pairwise([*row.tour, row.tour[0]]))
    for node in range(-1, state.batch.num_nodes):
        mask = ENV.insert_mask(state, torch.full((len(rows),), node))
        for b, row in enumerate(rows):
            expected = sorted(row.tour) if node in row.unvisited() else []
            assert positions.left[b][mask[b]].tolist() == expected


@given(st.integers(1, 3), st.integers(2, 7), st.data())
@SETTINGS
def test_moves_follow_the_plain_rules(num_rows: int, num_nodes: int, data: st.DataObject) -> None:
    """Random legal appends, insertions and removals give the masks, tours and costs of plain lists."""
    starts = [data.draw(st.integers(0, num_nodes - 1)) for _ in range(num_rows)]
    rows = [PlainTour(num_nodes, start) for start in starts]
    state = ENV.reset(random_batch(num_rows, num_nodes), torch.tensor(starts))
    history = [(state, ENV.tours(state))]
    for _ in range(data.draw(st.integers(1, 10))):
        kind = data.draw(st.sampled_from(["append", "append", "insert", "insert", "remove"]))
        if kind == "append":
            nodes = [data.draw(st.sampled_from(row.appendable())) for row in rows]
            state = ENV.append(state, torch.tensor(nodes))
            for row, node in zip(rows, nodes, strict=True):
                row.append(node)
        elif kind == "insert":
            nodes = [data.draw(st.sampled_from([-1, *row.unvisited()])) for row in rows]
            lefts = [data.draw(st.sampled_from(row.tour)) for row in rows]
            state = ENV.insert(state, torch.tensor(nodes), torch.tensor(lefts))
            for row, node, left in zip(rows, nodes, lefts, strict=True):
                if node >= 0:
                    row.insert(node, left)
        else:
            gone = [data.draw(st.lists(st.sampled_from(row.tour), max_size=len(row.tour) - 1)) for row in rows]
            padded = [nodes + [-1] * (num_nodes - len(nodes)) for nodes in gone]
            state = ENV.remove(state, torch.tensor(padded))
            for row, nodes in zip(rows, gone, strict=True):
                row.remove(nodes)
        assert_same(state, rows)
        history.append((state, ENV.tours(state)))
    assert all(torch.equal(ENV.tours(old), tours) for old, tours in history), "an old state has changed"
    assert torch.equal(ENV.tours(ENV.from_tours(state.batch, ENV.tours(state))), ENV.tours(state))


def test_all_rollouts_contain_the_optimum() -> None:
    """Over all orders of 7 nodes the cheapest rollout costs what dynamic programming finds."""
    orders = torch.tensor(list(permutations(range(1, 7))))
    batch = random_batch(1, 7).repeat_interleave(len(orders))
    state = ENV.reset(batch)
    for step in range(6):
        state = ENV.append(state, orders[:, step])
    costs = ENV.cost(batch, ENV.tours(state))
    assert float(costs.min()) == pytest.approx(held_karp(batch.coords[0])[0], abs=1e-5)


def test_random_insertions_never_beat_the_optimum() -> None:
    """Random insertion orders and positions on 9 nodes give feasible tours at or above the optimum."""
    rng = torch.Generator().manual_seed(1)
    batch = random_batch(1, 9).repeat_interleave(500)
    state = ENV.reset(batch)
    while not ENV.done(state).all():
        node = torch.multinomial((~state.visited).double(), 1, generator=rng).squeeze(1)
        position = torch.multinomial(ENV.insert_mask(state, node).double(), 1, generator=rng).squeeze(1)
        state = ENV.insert(state, node, position)
    tours = ENV.tours(state)
    ENV.check(batch, tours)
    costs = ENV.cost(batch, tours)
    assert float(costs.min()) >= held_karp(batch.coords[0])[0] - 1e-5
    assert len(costs.unique()) > 50


@pytest.mark.parametrize("seed", range(3))
def test_an_optimal_tour_costs_the_optimum(seed: int) -> None:
    """The optimal tour of 9 nodes, entered by insertions from its back, costs exactly the optimum."""
    batch = random_batch(1, 9, seed)
    optimum, tour = held_karp(batch.coords[0])
    state = ENV.reset(batch, torch.tensor(tour[:1]))
    for node in reversed(tour[1:]):
        state = ENV.insert(state, torch.tensor([node]), torch.tensor(tour[:1]))
    assert float(ENV.cost(batch, ENV.tours(state))) == pytest.approx(optimum, abs=1e-5)


def test_two_nodes_in_one_row() -> None:
    """The smallest problem has one tour, there and back."""
    batch = InstanceBatch(torch.tensor([[[0.0, 0.0], [0.6, 0.8]]]))
    state = ENV.append(ENV.reset(batch), torch.tensor([1]))
    assert ENV.tours(state).tolist() == [[0, 1]]
    assert ENV.cost(batch, ENV.tours(state)).tolist() == [2.0]


@pytest.mark.parametrize(
    ("move", "message"),
    [
        (lambda state: ENV.append(state, torch.tensor([3, 0])), "row 1: node 0 is visited already"),
        (lambda state: ENV.append(state, torch.tensor([3, 5])), r"row 1: node 5 is outside 0\.\.4"),
        (lambda state: ENV.append(state, torch.tensor([3])), "node must be int64 with 2 rows"),
        (lambda state: ENV.append(state, torch.tensor([3.0, 4.0])), "node must be int64 with 2 rows"),
        (
            lambda state: ENV.insert(state, torch.tensor([3, 2]), torch.tensor([0, 0])),
            "row 1: node 2 is visited already",
        ),
        (lambda state: ENV.insert(state, torch.tensor([3, 4]), torch.tensor([4, 0])), "row 0: node 3 .* position 4"),
        (lambda state: ENV.insert(state, torch.tensor([3, 4]), torch.tensor([0, -1])), "row 1: position -1 is outside"),
        (lambda state: ENV.remove(state, torch.tensor([[0, -1], [4, -1]])), "row 1: node 4 is not visited"),
        (lambda state: ENV.remove(state, torch.tensor([[0, 1, 2], [0, 1, -1]])), "row 0: the tour would lose its last"),
    ],
)
def test_illegal_moves_name_the_row(move, message: str) -> None:  # type: ignore[no-untyped-def]
    """An illegal move is refused with the row, the node and the reason."""
    state = ENV.from_tours(random_batch(2, 5), torch.tensor([[0, 1, 2], [0, 1, 2]]))
    with pytest.raises(ValueError, match=message):
        move(state)


@pytest.mark.parametrize(
    ("tours", "message"),
    [
        ([[0, 1, 2, 3], [0, 1, 3, 3]], "row 1: node 3 is visited 2 times"),
        ([[0, 1, 2, 3], [0, 1, 2, 4]], "row 1: 4 at place 3 is no node"),
        ([[0, 1, 2, -1], [0, 1, 2, 3]], "row 0: -1 at place 3 is no node"),
        ([[0, 1, 2], [3, 1, 2]], "row 0: node 3 is not visited"),
    ],
)
def test_check_names_row_and_node(tours: list[list[int]], message: str) -> None:
    """A tour that is no permutation is refused with its row and node."""
    with pytest.raises(InfeasibleSolution, match=message):
        ENV.check(random_batch(2, 4), torch.tensor(tours))


@pytest.mark.parametrize(
    ("tours", "message"),
    [
        ([[0, 1], [-1, -1]], "row 1: the tour visits no node"),
        ([[0, 1, 2], [2, -1, 1]], "row 1: node 1 follows padding"),
    ],
)
def test_partial_tours_are_padded_at_the_end(tours: list[list[int]], message: str) -> None:
    """Empty tours and padding inside a tour describe no state."""
    with pytest.raises(InfeasibleSolution, match=message):
        ENV.from_tours(random_batch(2, 4), torch.tensor(tours))


def test_checks_can_be_skipped() -> None:
    """With validate=False legal moves act as ever and an illegal one is not refused."""
    state = TSPEnv(validate=False).reset(random_batch(1, 4))
    state = TSPEnv(validate=False).append(state, torch.tensor([2]))
    assert ENV.tours(state).tolist() == [[0, 2, -1, -1]]
    TSPEnv(validate=False).append(state, torch.tensor([2]))


def test_a_cvrp_batch_is_refused() -> None:
    """The error says which problem the batch holds."""
    batch = InstanceBatch(torch.rand(1, 3, 2), torch.tensor([[0, 1, 1]]), torch.tensor([2]))
    with pytest.raises(ValueError, match="TSPEnv was given a batch of the problem 'cvrp'"):
        ENV.reset(batch)


def test_large_tours_need_no_matrix() -> None:
    """Ten thousand of 100,000 nodes are removed and one comes back, in memory linear in the nodes."""
    batch = random_batch(1, 100_000)
    state = ENV.from_tours(batch, torch.arange(100_000)[None])
    state = ENV.remove(state, torch.arange(50_000, 60_000)[None])
    state = ENV.insert(state, torch.tensor([55_555]), torch.tensor([49_999]))
    tour = ENV.tours(state)[0, :90_001].tolist()
    assert tour == [*range(60_000, 100_000), *range(50_000), 55_555]


def test_render_draws_the_tour() -> None:
    """The picture has the closed tour and all nodes."""
    batch = random_batch(2, 5)
    axes = ENV.render(batch, torch.tensor([0, 2, 1, -1, -1]), row=1, title="partial")
    assert axes.get_title() == "partial"
    drawn = axes.lines[0].get_xydata()
    assert torch.equal(torch.as_tensor(drawn).float(), batch.coords[1][[0, 2, 1, 0]])
