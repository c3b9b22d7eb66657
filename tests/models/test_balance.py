"""Balance conditions by brute force over all trajectories of small instances."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from trajectory_space import State, all_trajectories, groups, small_cvrp, small_tsp, state

from nco.instance import InstanceBatch
from nco.models.balance import (
    Balance,
    Transitions,
    balance_residuals,
    centred_energies,
    closed_routes,
    log_backward_moves,
    state_flows,
    trajectory_balance,
    transitions,
)
from nco.models.replay import real_moves

CVRPS = {"tight": small_cvrp(4, 4), "roomy": small_cvrp(4, 100), "five": small_cvrp(5, 6)}


def test_backward_steps_are_the_published_ones(shared: Path) -> None:
    """Counts of routes, both step-wise policies and the whole path's, to 1e-12."""
    fixture = load_file(shared / "parity" / "pb.safetensors")
    nodes = fixture["sequence"]
    closes, is_single, singles = closed_routes(nodes)
    assert torch.equal(closes.long(), fixture["closes_route"])
    in_path = torch.arange(nodes.shape[1] - 1) < fixture["length"][:, None] - 1
    assert torch.equal(singles[in_path], fixture["single_closed_after"][in_path])
    assert torch.equal((closes & ~is_single).cumsum(dim=-1)[in_path], fixture["multi_closed_after"][in_path])
    for policy in ("paper", "exact"):
        found = log_backward_moves(nodes, policy)
        torch.testing.assert_close(found, fixture[f"log_pb_{policy}"], atol=1e-12, rtol=0)
    whole = log_backward_moves(nodes, "exact").sum(dim=-1)
    torch.testing.assert_close(whole, fixture["log_pb_whole"], atol=1e-12, rtol=0)


def test_a_missing_spare_zero_changes_nothing(shared: Path) -> None:
    """Paths cut at the end of the longest have the same backward probabilities."""
    fixture = load_file(shared / "parity" / "pb.safetensors")
    longest = int(fixture["length"].max())
    for policy in ("paper", "exact"):
        whole = log_backward_moves(fixture["sequence"], policy)
        cut = log_backward_moves(fixture["sequence"][:, :longest], policy)
        assert torch.equal(cut, whole[:, : longest - 1])


@pytest.mark.parametrize("policy", ["paper", "exact"])
@pytest.mark.parametrize("name", CVRPS)
def test_backward_probabilities_of_a_solution_s_orders_add_up_to_one(name: str, policy: str) -> None:
    """Either policy is a distribution over the trajectories that lead to a solution."""
    nodes = all_trajectories(CVRPS[name])[0]
    group = groups("cvrp", nodes)
    chances = log_backward_moves(nodes, policy).sum(dim=-1).exp()
    total = torch.zeros(int(group.max()) + 1, dtype=torch.float64).index_add(0, group, chances)
    torch.testing.assert_close(total, torch.ones_like(total), atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", CVRPS)
def test_exact_backward_probability_is_one_over_the_number_of_orders(name: str) -> None:
    """Of each trajectory, over (a + j)! 2^a orders, which are counted."""
    nodes = all_trajectories(CVRPS[name])[0]
    group = groups("cvrp", nodes)
    orders = torch.bincount(group)[group]
    chances = log_backward_moves(nodes, "exact").sum(dim=-1).exp()
    torch.testing.assert_close(chances, 1.0 / orders.double(), atol=0, rtol=1e-12)


def test_paper_s_backward_policy_prefers_some_orders() -> None:
    """With one route of two and one of one customer: 1/6 or 1/3, not 1/4."""
    nodes = torch.tensor([[0, 1, 2, 0, 3, 0], [0, 3, 0, 1, 2, 0]])
    found = log_backward_moves(nodes, "paper").sum(dim=-1).exp()
    torch.testing.assert_close(found, torch.tensor([1 / 6, 1 / 3]).double())


def test_tsp_transitions_hold_start_and_closing() -> None:
    """1 / N forward for the first node, 1 / (2 N) backward for the closing move, and all edges' lengths."""
    batch = small_tsp(4)
    nodes = all_trajectories(batch)
    steps = transitions(batch, nodes, torch.zeros(1, 24, 3, dtype=torch.float64))
    assert steps.log_forward.shape == (1, 24, 5)
    assert float(steps.log_forward.sum(dim=-1)[0, 0]) == pytest.approx(-math.log(4))
    assert bool((steps.log_backward_whole == -math.log(8)).all())
    tours, size = torch.bincount(groups("tsp", nodes[0])), 8
    assert bool((tours == size).all())  # each tour has 2 N trajectories
    costs = (batch.coords[0][nodes[0]] - batch.coords[0][nodes[0]].roll(-1, 1)).norm(dim=-1).sum(dim=-1)
    torch.testing.assert_close(steps.solution_energy[0].float(), costs - costs.mean(), atol=1e-5, rtol=0)


def random_policy(batch: InstanceBatch, nodes: Tensor, seed: int = 0) -> Tensor:
    """Return any negative numbers for log-probabilities of moves, 0 for padding."""
    is_real = real_moves(nodes, batch.problem)
    generator = torch.Generator().manual_seed(seed)
    return torch.where(is_real, -torch.rand(is_real.shape, generator=generator, dtype=torch.float64), 0.0)


def random_flows(batch: InstanceBatch) -> tuple[Tensor, Tensor]:
    """Return log Z and log-flows of nodes."""
    generator = torch.Generator().manual_seed(2)
    return torch.tensor([3.0]).double(), torch.rand(1, batch.num_nodes, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("batch", [small_tsp(4), *CVRPS.values()], ids=["tsp", *CVRPS])
def test_residuals_of_detailed_balance_add_up_to_trajectory_balance(batch: InstanceBatch) -> None:
    """Flows and energies telescope, whatever the policy, with energies reshaped or added and paths of many lengths."""
    nodes = all_trajectories(batch)
    log_z, log_flow = random_flows(batch)
    reshaped = torch.linspace(1.0, 2.0, nodes.shape[1], dtype=torch.float64)[None]
    steps = transitions(batch, nodes, random_policy(batch, nodes), "exact", reshaped).with_extra(reshaped / 7)
    flows = state_flows(nodes, log_z, log_flow, steps.is_real, batch.problem)
    residual = balance_residuals(steps, flows, beta=10.0).sum(dim=-1)
    torch.testing.assert_close(residual**2, trajectory_balance(steps, log_z, 10.0), rtol=1e-9, atol=1e-9)
    energy = reshaped - reshaped.mean() + reshaped / 7
    torch.testing.assert_close(steps.solution_energy, energy, atol=1e-12, rtol=0)


def test_padding_never_enters() -> None:
    """More zeros at the end change no loss, and no energy or flow of a state."""
    batch = CVRPS["tight"]
    nodes = all_trajectories(batch)
    longer = torch.nn.functional.pad(nodes, (0, 5))
    log_z, log_flow = random_flows(batch)
    losses = []
    for paths in (nodes, longer):
        log_forward = torch.nn.functional.pad(random_policy(batch, nodes), (0, paths.shape[-1] - nodes.shape[-1]))
        steps = transitions(batch, paths, log_forward, "paper")
        flows = state_flows(paths, log_z, log_flow, steps.is_real, "cvrp")
        losses.append(Balance("hybrid", "paper").loss(steps, log_z, flows, 5.0, 0.5))
    torch.testing.assert_close(*losses, rtol=1e-12, atol=0)


def test_flows_are_means_over_the_nodes_visited() -> None:
    """The depot counts once for each visit; the first state has log Z, a solution 0."""
    nodes = torch.tensor([[[0, 2, 0, 1, 0, 0]]])
    log_flow = torch.tensor([[1.0, 10.0, 4.0]])
    found = state_flows(nodes, torch.tensor([7.0]), log_flow, real_moves(nodes, "cvrp"), "cvrp")
    assert found[0, 0].tolist() == [7.0, 2.5, 2.0, 4.0, 0.0, 0.0]


def test_energies_are_lengths_less_the_mean_after_as_many_moves() -> None:
    """A trajectory that has ended counts with its cost; the last move takes the rest of the mean."""
    lengths = torch.tensor([[[1.0, 2.0, 0.0], [3.0, 1.0, 5.0]]])
    is_real = torch.tensor([[[True, True, False], [True, True, True]]])
    assert centred_energies(lengths, is_real)[0].tolist() == [[0.0, -1.0, -3.0, -3.0], [0.0, 1.0, 0.5, 3.0]]


class Tabular(nn.Module):
    """A policy and flows with numbers of their own for each state."""

    def __init__(self, batch: InstanceBatch, nodes: Tensor):
        super().__init__()
        self.problem = batch.problem
        states: dict[State, int] = {}
        self.here = torch.tensor(
            [[[self._number(states, path, t) for t in range(len(path))] for path in nodes[0].tolist()]]
        )
        allowed = torch.zeros(len(states), batch.num_nodes, dtype=torch.bool)
        self.is_real = real_moves(nodes, batch.problem)
        self.head = nodes[..., 1:]
        allowed[self.here[..., :-1][self.is_real], self.head[self.is_real]] = True
        allowed[~allowed.any(dim=1)] = True  # what nothing follows
        self.mask = torch.where(allowed, 0.0, -torch.inf).double()
        self.logits = nn.Parameter(torch.zeros(allowed.shape, dtype=torch.float64))
        self.flow = nn.Parameter(torch.zeros(len(states), dtype=torch.float64))
        self.log_z = nn.Parameter(torch.zeros(1, dtype=torch.float64))

    def _number(self, states: dict[State, int], path: list[int], step: int) -> int:
        seen = path[: step + 1]
        return states.setdefault(tuple(seen) if self.problem == "tsp" else state(seen), len(states))

    def log_forward(self) -> Tensor:
        """Return float64 [1, h, L - 1]."""
        table = (self.logits + self.mask).log_softmax(dim=-1)
        return torch.where(self.is_real, table[self.here[..., :-1], self.head], 0.0)

    def flows(self, steps: Transitions) -> Tensor:
        """Return float64 [1, h, T + 1]."""
        inner = self.flow[self.here]
        first = self.log_z[:, None, None].expand(-1, inner.shape[1], 1)
        if self.problem == "tsp":
            return torch.cat([first, inner, torch.zeros_like(first)], dim=-1)
        is_end = ~nn.functional.pad(steps.is_real, (0, 1))
        return torch.cat([first, inner[..., 1:]], dim=-1).masked_fill(is_end, 0.0)


LEARNED = {
    "tb": Balance("tb"),
    "hybrid": Balance("hybrid", "exact"),
    "db": Balance("db", "exact"),
    "db with the paper's backward policy": Balance("db", "paper"),
}


@pytest.mark.parametrize("kind", LEARNED)
@pytest.mark.parametrize("batch", [small_tsp(5), small_cvrp(4, 4), small_cvrp(4, 100)], ids=["tsp", "tight", "roomy"])
def test_a_tabular_policy_learns_the_boltzmann_distribution(batch: InstanceBatch, kind: str) -> None:
    """Each solution's probability comes within 1 % of exp(-beta cost) over their sum."""
    beta, balance = 2.0, LEARNED[kind]
    nodes = all_trajectories(batch)
    policy = Tabular(batch, nodes)
    optimiser = torch.optim.LBFGS(policy.parameters(), max_iter=400, line_search_fn="strong_wolfe", tolerance_change=0)

    def closure() -> Tensor:
        optimiser.zero_grad()
        steps = transitions(batch, nodes, policy.log_forward(), balance.backward)
        loss = balance.loss(steps, policy.log_z, policy.flows(steps), beta, weight=1.0)
        loss.backward()
        return loss

    optimiser.step(closure)
    group = groups(batch.problem, nodes[0])
    start = 1 / batch.num_nodes if batch.problem == "tsp" else 1.0
    with torch.no_grad():
        chance = start * policy.log_forward()[0].sum(dim=-1).exp()
        found = torch.zeros(int(group.max()) + 1, dtype=torch.float64).index_add(0, group, chance)
    places = batch.coords[0].double()[nodes[0]]
    costs = (places - places.roll(-1, dims=1)).norm(dim=-1).sum(dim=-1)
    wanted = torch.zeros_like(found)
    wanted[group] = (-beta * costs).exp()
    torch.testing.assert_close(found, wanted / wanted.sum(), rtol=0.01, atol=0)


def test_detailed_balance_needs_flows() -> None:
    """A network without a log-flow cannot be trained with it; unknown names are named."""
    batch = small_tsp(3)
    nodes = all_trajectories(batch)
    steps = transitions(batch, nodes, random_policy(batch, nodes))
    with pytest.raises(ValueError, match="needs the flows"):
        Balance("db").loss(steps, torch.zeros(1), None, 1.0, 1.0)
    with pytest.raises(ValueError, match="unknown balance 'both'; known are tb, db, hybrid"):
        Balance("both")
    with pytest.raises(ValueError, match="unknown backward policy"):
        Balance("tb", "neither")
