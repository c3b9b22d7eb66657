"""The CVRP environment against lists of routes, the judge of solutions, and dynamic programming."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nco.envs import CVRPEnv, CVRPState
from nco.errors import InfeasibleInstance, InfeasibleSolution
from nco.instance import Instance, InstanceBatch
from nco.solution import check_routes, routes_cost, split_giant_tour

SETTINGS = settings(derandomize=True, deadline=None, max_examples=50)
ENV = CVRPEnv()


def make_batch(demand: list[list[int]], capacity: list[int], seed: int = 0) -> InstanceBatch:
    """Return uniform instances with the customers' demands (the depot's 0 is added)."""
    coords = torch.rand(len(demand), len(demand[0]) + 1, 2, generator=torch.Generator().manual_seed(seed))
    return InstanceBatch(coords, torch.tensor([[0, *row] for row in demand]), torch.tensor(capacity))


def rollout(batch: InstanceBatch, seed: int = 0) -> tuple[CVRPState, int]:
    """Append uniformly sampled legal nodes until all rows are done; return the state and the number of moves."""
    rng = torch.Generator().manual_seed(seed)
    state, moves = ENV.reset(batch), 0
    while not ENV.done(state).all():
        state = ENV.append(state, torch.multinomial(ENV.append_mask(state).double(), 1, generator=rng).squeeze(1))
        moves += 1
    return state, moves


def subset_optimum(batch: InstanceBatch) -> tuple[float, list[list[int]]]:
    """Return the optimal cost and routes of a batch's only row, by dynamic programming over sets of customers."""
    coords, demand, capacity = batch.coords[0].double(), batch.demand[0].tolist(), int(batch.capacity[0])  # type: ignore[index]
    distance, customers = torch.cdist(coords, coords).tolist(), range(1, len(coords))
    paths: dict[tuple[int, int], tuple[float, list[int]]] = {(1 << j, j): (distance[0][j], [j]) for j in customers}
    routes: dict[int, tuple[float, list[int]]] = {}
    best: dict[int, tuple[float, list[list[int]]]] = {0: (0.0, [])}
    for subset in range(2, 1 << len(coords), 2):
        inside = [j for j in customers if subset >> j & 1]
        for j in inside if len(inside) > 1 else []:
            before = [(paths[subset ^ 1 << j, i], i) for i in inside if i != j]
            paths[subset, j] = min((cost + distance[i][j], [*path, j]) for (cost, path), i in before)
        if sum(demand[j] for j in inside) <= capacity:
            routes[subset] = min((paths[subset, j][0] + distance[j][0], paths[subset, j][1]) for j in inside)
        # The route that serves the first customer is any fitting subset with it.
        parts = (part for part in routes if part & ~subset == 0 and part >> inside[0] & 1)
        best[subset] = min((routes[p][0] + best[subset ^ p][0], [routes[p][1], *best[subset ^ p][1]]) for p in parts)
    return best[(1 << len(coords)) - 2]


class PlainRoutes:
    """One row's rules on lists: slot i holds the route of the i-th depot token."""

    def __init__(self, demand: list[int], capacity: int):
        self.demand, self.capacity = [0, *demand], capacity
        self.num_nodes = len(demand) + 1
        self.slots: list[list[int]] = [[] for _ in range(self.num_nodes)]
        self.active = self.last = 0

    def served(self) -> list[int]:
        """Return the customers that are on routes."""
        return [customer for route in self.slots for customer in route]

    def unserved(self) -> list[int]:
        """Return the customers that are on no route."""
        return [customer for customer in range(1, self.num_nodes) if customer not in self.served()]

    def free(self, slot: int) -> int:
        """Return the capacity that a route has left."""
        return self.capacity - sum(self.demand[customer] for customer in self.slots[slot])

    def first_empty(self) -> int:
        """Return the slot where a new route opens."""
        return next(slot for slot, route in enumerate(self.slots) if not route)

    def appendable(self) -> list[int]:
        """Return the legal appends."""
        close = [0] if self.slots[self.active] or not self.unserved() else []
        return close + [customer for customer in self.unserved() if self.demand[customer] <= self.free(self.active)]

    def positions(self) -> dict[int, tuple[int, int, int]]:
        """Return left node, right node and free capacity by token."""
        found = {}
        for slot, route in enumerate(self.slots):
            if route or slot == self.first_empty():
                token = slot and self.num_nodes + slot - 1
                for key, (left, right) in zip([token, *route], pairwise([0, *route, 0]), strict=True):
                    found[key] = (left, right, self.free(slot))
        return found

    def insertable(self, node: int) -> list[int]:
        """Return the tokens of the positions where a node may go."""
        if node not in self.unserved():
            return []
        return sorted(token for token, (_, _, free) in self.positions().items() if self.demand[node] <= free)

    def append(self, node: int) -> None:
        """Put a customer at the end of the active route, or close it."""
        self.last = node
        if node:
            self.slots[self.active].append(node)
        else:
            self.active = self.first_empty()

    def insert(self, node: int, token: int) -> None:
        """Put a customer behind another one, or at the head of a slot."""
        self.last = node
        if 0 < token < self.num_nodes:
            route = next(route for route in self.slots if token in route)
            route.insert(route.index(token) + 1, node)
        else:
            self.slots[token and token - self.num_nodes + 1].insert(0, node)

    def remove(self, nodes: list[int]) -> None:
        """Drop customers; an emptied active route gives way to the first empty slot."""
        if self.last in nodes:
            route = next(route for route in self.slots if self.last in route)
            before = [customer for customer in route[: route.index(self.last)] if customer not in nodes]
            self.last = before[-1] if before else 0
        self.slots = [[customer for customer in route if customer not in nodes] for route in self.slots]
        if not self.slots[self.active]:
            self.active = self.first_empty()

    def tour(self) -> list[int]:
        """Return the giant tour of full length."""
        visits = [0] + [visit for route in self.slots if route for visit in (*route, 0)]
        return visits + [0] * (2 * self.num_nodes - 1 - len(visits))

    def cost(self, coords: torch.Tensor) -> float:
        """Return the total length in double precision."""
        points = coords.double()
        return sum(float((points[a] - points[b]).norm()) for a, b in pairwise(self.tour()))


def assert_same(state: CVRPState, rows: list[PlainRoutes]) -> None:
    """Compare everything that the environment says of a state with the plain routes."""
    tours, positions = ENV.tours(state), ENV.positions(state)
    assert positions.residual is not None
    costs = ENV.cost(state.batch, tours)
    for b, row in enumerate(rows):
        assert tours[b].tolist() == row.tour()
        assert float(costs[b]) == pytest.approx(row.cost(state.batch.coords[b]), abs=1e-5)
        assert ENV.append_mask(state)[b].nonzero().flatten().tolist() == row.appendable()
        assert bool(ENV.done(state)[b]) == (not row.unserved())
        assert (int(state.last[b]), int(state.residual[b])) == (row.last, row.free(row.active))
        table = torch.stack([positions.left[b], positions.right[b], positions.residual[b]], dim=1)
        valid = positions.valid[b].nonzero().flatten().tolist()
        assert {token: tuple(table[token].tolist()) for token in valid} == row.positions()
    for node in range(-1, state.batch.num_nodes):
        mask = ENV.insert_mask(state, torch.full((len(rows),), node))
        assert [m.nonzero().flatten().tolist() for m in mask] == [row.insertable(node) for row in rows]


@st.composite
def plain_rows(draw: st.DrawFn) -> list[PlainRoutes]:
    """Draw same-size rows with capacities of their own and demands from 0 up to them."""
    customers = draw(st.integers(1, 6))
    capacities = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    return [PlainRoutes([draw(st.integers(0, c)) for _ in range(customers)], c) for c in capacities]


@given(plain_rows(), st.data())
@SETTINGS
def test_moves_follow_the_plain_rules(rows: list[PlainRoutes], data: st.DataObject) -> None:
    """Random legal appends, insertions and removals give the masks, loads, tours and costs of plain lists."""
    state = ENV.reset(make_batch([row.demand[1:] for row in rows], [row.capacity for row in rows]))
    history = [(state, ENV.tours(state))]
    for _ in range(data.draw(st.integers(1, 10))):
        kind = data.draw(st.sampled_from(["append", "append", "insert", "insert", "remove"]))
        if kind == "append":
            nodes = [data.draw(st.sampled_from(row.appendable())) for row in rows]
            state = ENV.append(state, torch.tensor(nodes))
            for row, node in zip(rows, nodes, strict=True):
                row.append(node)
        elif kind == "insert":
            nodes = [data.draw(st.sampled_from([-1, *row.unserved()])) for row in rows]
            tokens = [
                data.draw(st.sampled_from(row.insertable(n))) if n > 0 else 0
                for row, n in zip(rows, nodes, strict=True)
            ]
            state = ENV.insert(state, torch.tensor(nodes), torch.tensor(tokens))
            for row, node, token in zip(rows, nodes, tokens, strict=True):
                if node > 0:
                    row.insert(node, token)
        else:
            gone = [data.draw(st.lists(st.sampled_from(row.served() or [-1]), max_size=4)) for row in rows]
            state = ENV.remove(state, torch.tensor([nodes + [-1] * (4 - len(nodes)) for nodes in gone]))
            for row, nodes in zip(rows, gone, strict=True):
                row.remove(nodes)
        assert_same(state, rows)
        history.append((state, ENV.tours(state)))
    assert all(torch.equal(ENV.tours(old), tours) for old, tours in history), "an old state has changed"
    assert torch.equal(ENV.tours(ENV.from_tours(state.batch, ENV.tours(state))), ENV.tours(state))


@given(st.integers(1, 8), st.integers(2, 12), st.data())
@SETTINGS
def test_check_agrees_with_the_judge_of_solutions(customers: int, capacity: int, data: st.DataObject) -> None:
    """A tour with random faults is refused exactly when the judge refuses its routes; costs agree too."""
    demand = data.draw(st.lists(st.integers(0, min(5, capacity)), min_size=customers, max_size=customers))
    visits = data.draw(st.permutations([*range(1, customers + 1), *[0] * data.draw(st.integers(0, customers))]))
    if data.draw(st.booleans()):
        visits = [*visits, data.draw(st.integers(0, customers))][data.draw(st.integers(0, 1)) :]
    batch = make_batch([demand], [capacity])
    instance = Instance(
        "drawn", "cvrp", coords=batch.coords[0].numpy(), demand=batch.demand[0].numpy(), capacity=capacity
    )  # type: ignore[index]
    tour = torch.tensor([[0, *visits]])
    routes = split_giant_tour("cvrp", tour[0].numpy())
    try:
        check_routes(instance, routes)
    except InfeasibleSolution:
        with pytest.raises(InfeasibleSolution, match="row 0: node"):
            ENV.check(batch, tour)
    else:
        ENV.check(batch, tour)
    assert float(ENV.cost(batch, tour)) == pytest.approx(routes_cost(instance, routes), abs=1e-5)


def test_all_rollouts_contain_the_optimum() -> None:
    """Over all legal append sequences of 4 customers the cheapest costs what dynamic programming finds."""
    batch = make_batch([[2, 3, 1, 2]], [5])
    costs, stack = [], [ENV.reset(batch)]
    while stack:
        state = stack.pop()
        if ENV.done(state).all():
            costs.append(float(ENV.cost(batch, ENV.tours(state))))
        else:
            stack.extend(ENV.append(state, node) for node in ENV.append_mask(state)[0].nonzero())
    assert len(costs) > 100
    assert min(costs) == pytest.approx(subset_optimum(batch)[0], abs=1e-5)


def test_random_rollouts_never_beat_the_optimum() -> None:
    """Sampled appends on 8 customers give feasible tours at or above the optimum."""
    batch = make_batch([[3, 1, 4, 1, 5, 2, 6, 5]], [10])
    state, _ = rollout(batch.repeat_interleave(500))
    tours = ENV.tours(state)
    ENV.check(state.batch, tours)
    assert float(ENV.cost(state.batch, tours).min()) >= subset_optimum(batch)[0] - 1e-5


@pytest.mark.parametrize("seed", range(3))
def test_an_optimal_solution_costs_the_optimum(seed: int) -> None:
    """The optimal routes of 8 customers, entered by appends or insertions, cost exactly the optimum."""
    batch = make_batch([[3, 1, 4, 1, 5, 2, 6, 5]], [10], seed)
    optimum, routes = subset_optimum(batch)
    appended = inserted = ENV.reset(batch)
    for route in routes:
        for node in [*route, 0]:
            appended = ENV.append(appended, torch.tensor([node]))
        opening = ENV.positions(inserted).valid & (ENV.positions(inserted).left == ENV.positions(inserted).right)
        for node in reversed(route):
            inserted = ENV.insert(inserted, torch.tensor([node]), opening.int().argmax(dim=1))
    for state in (appended, inserted):
        ENV.check(batch, ENV.tours(state))
        assert float(ENV.cost(batch, ENV.tours(state))) == pytest.approx(optimum, abs=1e-5)


def test_exact_fill_is_legal_for_every_small_capacity() -> None:
    """Q customers of demand 1 fill a route exactly, customers without demand still fit, one more unit does not."""
    capacity = list(range(2, 60))
    state = ENV.reset(make_batch([[1] * row + [0] * (59 - row) + [1] for row in capacity], capacity))
    for node in range(1, 60):
        state = ENV.append(state, torch.full((len(capacity),), node))
    assert not state.residual.any()
    assert not ENV.append_mask(state)[:, 60].any()
    ENV.check(
        state.batch, ENV.tours(ENV.append(ENV.append(state, state.active * 0), torch.full_like(state.active, 60)))
    )


def test_an_overload_of_one_in_200_000_is_refused() -> None:
    """Two demands that exceed the capacity by one unit never share a route; without the unit they do."""
    batch = make_batch([[100_000, 100_001], [100_000, 100_000]], [200_000, 200_000])
    state = ENV.reset(batch, torch.tensor([1, 1]))
    assert ENV.append_mask(state)[:, 2].tolist() == [False, True]
    assert ENV.insert_mask(state, torch.tensor([2, 2]))[:, 1].tolist() == [False, True]
    ENV.check(batch[1:], torch.tensor([[0, 1, 2, 0]]))
    with pytest.raises(
        InfeasibleSolution, match=r"row 0: node 2 brings its route to a load of 200001, above .* 200000"
    ):
        ENV.check(batch, torch.tensor([[0, 1, 2, 0], [0, 1, 2, 0]]))


def test_each_row_has_its_own_capacity() -> None:
    """With capacities 30 and 40 in one batch, a load of 31 to 40 fits the second row alone."""
    state = ENV.reset(make_batch([[20, 11, 20]] * 2, [30, 40]), torch.tensor([1, 1]))
    assert ENV.append_mask(state).tolist() == [[True, False, False, False], [True, False, True, True]]
    assert ENV.positions(state).residual[:, 1].tolist() == [10, 20]  # type: ignore[index]


@pytest.mark.parametrize("seed", range(3))
def test_rollouts_end_within_two_moves_a_customer(seed: int) -> None:
    """Demands 1..24 at Q = 100 next to demands that fill Q = 1 end in at most 2 n + 1 moves, feasibly."""
    demand = torch.randint(1, 25, (40, 20), generator=torch.Generator().manual_seed(seed)).tolist()
    batch = make_batch([*demand, [1] * 20], [100] * 40 + [1], seed)
    state, moves = rollout(batch, seed)
    assert moves <= 2 * 20 + 1
    ENV.check(batch, ENV.tours(state))


def test_finished_rows_wait_at_the_depot() -> None:
    """A finished row closes its last route and then takes node 0 without a change."""
    state = ENV.from_tours(make_batch([[1, 1]] * 2, [2, 2]), torch.tensor([[0, 1, 2], [0, 1, 0]]))
    assert ENV.append_mask(state).tolist() == [[True, False, False], [False, False, True]]
    for _ in range(2):
        state = ENV.append(state, torch.tensor([0, 2]) * ~ENV.done(state))
    assert ENV.tours(state).tolist() == [[0, 1, 2, 0, 0], [0, 1, 0, 2, 0]]


def test_one_customer_in_one_row() -> None:
    """The smallest problem has one route, there and back."""
    batch = InstanceBatch(torch.tensor([[[0.0, 0.0], [0.6, 0.8]]]), torch.tensor([[0, 3]]), torch.tensor([3]))
    state, moves = rollout(batch)
    assert moves == 1
    assert ENV.tours(state).tolist() == [[0, 1, 0]]
    assert ENV.cost(batch, ENV.tours(state)).tolist() == [2.0]


def test_partial_tours_keep_their_loads() -> None:
    """A state built from partial tours has their loads, and offers a new route behind them."""
    state = ENV.from_tours(make_batch([[2, 3, 4]], [7]), torch.tensor([[0, 0, 3, 0, 0, 1]]))
    assert ENV.tours(state).tolist() == [[0, 3, 0, 1, 0, 0, 0]]
    positions = ENV.positions(state)
    residual = positions.residual[positions.valid].tolist()  # type: ignore[index]
    assert residual == [3, 5, 3, 5, 7]


@pytest.mark.parametrize(
    ("move", "message"),
    [
        (lambda state: ENV.append(state, torch.tensor([3, 0])), "row 1: node 0 cannot close a route without customers"),
        (lambda state: ENV.append(state, torch.tensor([3, 1])), "row 1: node 1 is visited already"),
        (lambda state: ENV.append(state, torch.tensor([5, 3])), r"row 0: node 5 is outside 0\.\.4"),
        (
            lambda state: ENV.insert(state, torch.tensor([3, 0]), torch.tensor([0, 0])),
            "row 1: node 0 is visited already",
        ),
        (lambda state: ENV.insert(state, torch.tensor([3, 4]), torch.tensor([1, 1])), "row 1: node 4 does not fit"),
        (lambda state: ENV.insert(state, torch.tensor([3, 4]), torch.tensor([1, 3])), "row 1: node 4 .* position 3"),
        (lambda state: ENV.insert(state, torch.tensor([3, 4]), torch.tensor([9, 5])), "row 0: position 9 is outside"),
        (lambda state: ENV.remove(state, torch.tensor([[1, -1], [0, 2]])), "row 1: node 0 is the depot"),
        (lambda state: ENV.remove(state, torch.tensor([[1, -1], [2, 3]])), "row 1: node 3 is not visited"),
    ],
)
def test_illegal_moves_name_the_row(move, message: str) -> None:  # type: ignore[no-untyped-def]
    """An illegal move is refused with the row, the node and the reason."""
    state = ENV.from_tours(make_batch([[2, 2, 1, 3]] * 2, [5, 5]), torch.tensor([[0, 1, 2], [0, 1, 2]]))
    with pytest.raises(ValueError, match=message):
        move(state)


def test_an_append_above_the_residual_capacity_is_explained() -> None:
    """The message holds the demand and what is left of the capacity."""
    state = ENV.reset(make_batch([[2, 2, 1, 3]], [4]), torch.tensor([1]))
    with pytest.raises(ValueError, match="row 0: node 4 has the demand 3, above the residual capacity 2"):
        ENV.append(state, torch.tensor([4]))


@pytest.mark.parametrize(
    ("tours", "message"),
    [
        ([[0, 1, 2, 3], [0, 1, 3, 3]], "row 1: node 3 is visited 2 times"),
        ([[0, 1, 2, 4], [0, 1, 2, 3]], "row 0: 4 at place 3 is no node"),
        ([[0, 1, 2, 3], [0, 1, 0, 3]], "row 1: node 2 is not visited"),
        ([[0, 1, 2, 3], [1, 0, 2, 3]], "row 1: the tour starts with node 1, not with the depot"),
    ],
)
def test_check_names_row_and_node(tours: list[list[int]], message: str) -> None:
    """A tour that breaks a rule is refused with its row and node."""
    with pytest.raises(InfeasibleSolution, match=message):
        ENV.check(make_batch([[1, 1, 1]] * 2, [9, 9]), torch.tensor(tours))


@pytest.mark.parametrize(
    ("demand", "message"),
    [
        ([[0, 1, 2], [0, 1, 4]], r"row 1: node 2 has the demand 4, allowed is 0\.\.3"),
        ([[0, 1, 2], [0, -1, 2]], r"row 1: node 1 has the demand -1, allowed is 0\.\.3"),
        ([[1, 1, 2], [0, 1, 2]], "row 0: node 0 has the demand 1, allowed is 0 at the depot"),
    ],
)
def test_demands_that_no_route_can_carry_are_refused(demand: list[list[int]], message: str) -> None:
    """A batch that would leave a rollout without a legal move is refused at its reset."""
    batch = InstanceBatch(torch.rand(2, 3, 2), torch.tensor(demand), torch.tensor([3, 3]))
    with pytest.raises(InfeasibleInstance, match=message):
        ENV.reset(batch)


def test_checks_can_be_skipped() -> None:
    """With validate=False a rollout from the masks gives the same tours."""
    batch = make_batch([[1, 2, 3]] * 4, [4] * 4)
    trusting = CVRPEnv(validate=False)
    state, trusted = ENV.reset(batch), trusting.reset(batch)
    while not ENV.done(state).all():
        node = ENV.append_mask(state).int().argmax(dim=1)
        state, trusted = ENV.append(state, node), trusting.append(trusted, node)
    assert torch.equal(ENV.tours(state), trusting.tours(trusted))
    trusting.append(state, torch.tensor([1] * 4))


def test_a_tsp_batch_is_refused() -> None:
    """The error says which problem the batch holds."""
    with pytest.raises(ValueError, match="CVRPEnv was given a batch of the problem 'tsp'"):
        ENV.reset(InstanceBatch(torch.rand(1, 3, 2)))


def test_large_instances_need_no_matrix() -> None:
    """Of 50,000 customers 10,000 are removed and one comes back, in memory linear in the customers."""
    batch = make_batch([[1] * 50_000], [100])
    customers = torch.arange(1, 50_001).view(-1, 100)
    state = ENV.from_tours(batch, torch.nn.functional.pad(customers, (1, 0)).view(1, -1))
    state = ENV.remove(state, torch.arange(20_001, 30_001)[None])
    state = ENV.insert(
        state, torch.tensor([25_000]), ENV.insert_mask(state, torch.tensor([25_000])).int().argmax(dim=1)
    )
    routes = split_giant_tour("cvrp", ENV.tours(state)[0].numpy())
    assert [len(route) for route in routes] == [100] * 200 + [1] + [100] * 200
    assert routes[200].tolist() == [25_000]


def test_render_draws_each_route() -> None:
    """The picture has one line a route; nodes and depot are drawn besides."""
    batch = make_batch([[1, 1, 1]], [2])
    axes = ENV.render(batch, torch.tensor([0, 1, 2, 0, 3, 0]))
    lines = [torch.as_tensor(line.get_xydata()).float() for line in axes.lines[:2]]
    assert torch.equal(lines[0], batch.coords[0][[0, 1, 2, 0]])
    assert torch.equal(lines[1], batch.coords[0][[0, 3, 0]])
