"""Balance conditions of GFlowNets as losses: trajectory balance, detailed balance, and the sum of both (HBG).

A trajectory builds a solution move by move; its states are sets. A CVRP's state is the set of closed routes, whose
directions mean nothing, and the open route. A TSP's is its path, until a last move closes it to a tour without
beginning and direction. A policy that fulfils either condition on all trajectories builds a solution of cost C with a
probability in proportion to exp(-beta C).

Energies are costs less their mean over the h trajectories of an instance, so log Z is that of exp(-beta (C - mean C)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nco.instance import InstanceBatch
from nco.models.replay import real_moves

BALANCES = ("tb", "db", "hybrid")
BACKWARDS = ("paper", "exact")


@dataclass(frozen=True)
class Transitions:
    """The T transitions of h trajectories of B instances.

    A CVRP's are the moves between the nodes of its giant tour, T = L - 1. A TSP's are the choice of the first node,
    the N - 1 moves and the closing one, T = N + 1.

    Attributes
    ----------
    log_forward : float [B, h, T]
        Of the policy; 0 for padding.
    log_backward : float [B, h, T]
        Of the backward policy, step by step; 0 for padding.
    log_backward_whole : float [B, h]
        Of a trajectory given its solution, where all orders of building that are equally probable.
    energy : float [B, h, T + 1]
        Of the states: 0 of the first one; of the last one, and of padding, that of the solution.
    is_real : bool [B, h, T]
        False for padding.
    """

    log_forward: Tensor
    log_backward: Tensor
    log_backward_whole: Tensor
    energy: Tensor
    is_real: Tensor

    @property
    def solution_energy(self) -> Tensor:
        """Energies of the solutions, float [B, h]."""
        return self.energy[..., -1]

    def with_extra(self, energy: Tensor) -> Transitions:
        """Return the transitions with energies [B, h] added to those of the solutions."""
        is_end = ~torch.nn.functional.pad(self.is_real, (0, 1))
        return replace(self, energy=self.energy + torch.where(is_end, energy[..., None], 0))


def transitions(
    batch: InstanceBatch,
    nodes: Tensor,
    log_forward: Tensor,
    backward: str = "exact",
    reshaped: Tensor | None = None,
) -> Transitions:
    """Return the transitions of trajectories.

    Parameters
    ----------
    batch : InstanceBatch
    nodes : int64 [B, h, L]
        Giant tours; of a CVRP padded with zeros.
    log_forward : float [B, h, L - 1]
        Log-probabilities of the moves between them, see :func:`nco.models.replay.move_log_probs`.
    backward : {"paper", "exact"}
        See :func:`log_backward_moves`; a TSP has only one.
    reshaped : float [B, h], optional
        Costs that stand in for those of the solutions (the energy reshaping of GFACS); the lengths of the moves are
        scaled so that they add up to them.
    """
    is_real = real_moves(nodes, batch.problem)
    lengths = edge_lengths(batch, nodes)
    if batch.problem == "tsp":
        # The first node is drawn with 1 / N; closing is no choice, and leads back to any of 2 N paths.
        size = batch.num_nodes
        log_forward = torch.nn.functional.pad(log_forward, (1, 1))
        log_forward = log_forward + _at(log_forward, 0, -math.log(size))
        log_backward = _at(log_forward, -1, -math.log(2 * size))
        whole = log_backward[..., -1]
        lengths = torch.nn.functional.pad(lengths, (1, 0))
        is_real = torch.ones_like(log_forward, dtype=torch.bool)
    else:
        lengths = lengths[..., :-1]
        log_backward = log_backward_moves(nodes, backward).to(log_forward.dtype)
        exact = log_backward if backward == "exact" else log_backward_moves(nodes, "exact")
        whole = exact.sum(dim=-1).to(log_forward.dtype)
    if reshaped is not None:
        lengths = lengths * (reshaped / lengths.sum(dim=-1)).nan_to_num(1.0)[..., None]
    energy = centred_energies(lengths, is_real).to(log_forward.dtype)
    return Transitions(log_forward, log_backward, whole, energy, is_real)


def edge_lengths(batch: InstanceBatch, nodes: Tensor) -> Tensor:
    """Return the lengths of the edges behind each node of closed giant tours, float64 [B, h, L]."""
    rows = torch.arange(len(batch), device=nodes.device)[:, None, None]
    places = batch.coords.double()[rows, nodes]
    return (places - places.roll(-1, dims=2)).norm(dim=-1)


def _at(like: Tensor, place: int, value: float) -> Tensor:
    """Return zeros like a tensor with a value at one place of the last dimension."""
    found = torch.zeros_like(like)
    found[..., place] = value
    return found


def centred_energies(lengths: Tensor, is_real: Tensor) -> Tensor:
    """Return the energies of states out of the lengths of moves.

    The energy of a state is its length less the mean length of all trajectories after as many moves (HBG, Eq. 9, summed
    up), where a trajectory that has ended counts with its cost. That of a solution is its cost less the mean cost:
    what trajectories that end early leave of the mean belongs to their last move.

    Parameters
    ----------
    lengths : float [B, h, T]
        0 for padding.
    is_real : bool [B, h, T]

    Returns
    -------
    float [B, h, T + 1]
    """
    upto = torch.nn.functional.pad(lengths.cumsum(dim=-1), (1, 0))
    centred = upto - upto.mean(dim=1, keepdim=True)
    is_end = ~torch.nn.functional.pad(is_real, (0, 1))
    return torch.where(is_end, centred[..., -1:], centred)


def log_backward_moves(nodes: Tensor, policy: str) -> Tensor:
    """Return the log-probabilities of taking back the moves of a CVRP's trajectories.

    Only a return to the depot leaves a choice: after it a routes of several customers and j of one are closed,
    K = a + j in all, any of which could have been the last.

    - ``paper`` (HBG, Eq. 7): 1 / (2 a + j), the same for each parent of the state. The product over a trajectory then
      depends on its order.
    - ``exact``: 1 / (2 K) after a route of several customers, 1 / K after one of a single customer. The product is
      1 / (K! 2^a), over the whole trajectory, for each order (Eq. 5 and 6).

    Parameters
    ----------
    nodes : int64 [..., L]
        Giant tours, padded with zeros.
    policy : {"paper", "exact"}

    Returns
    -------
    float64 [..., L - 1]
        Zero for padding.
    """
    closes, is_single, singles = closed_routes(nodes)
    routes = closes.cumsum(dim=-1)
    choices = 2 * routes - singles if policy == "paper" else torch.where(is_single, routes, 2 * routes)
    return torch.where(closes, -choices.double().clamp(min=1).log(), 0.0)


def closed_routes(nodes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return which moves close a route, which close one of a single customer, and how many of the latter there were.

    Parameters
    ----------
    nodes : int64 [..., L]
        Giant tours of a CVRP.

    Returns
    -------
    bool [..., L - 1], bool [..., L - 1], int64 [..., L - 1]
    """
    is_depot = nodes == 0
    closes = is_depot[..., 1:] & ~is_depot[..., :-1]
    before = torch.nn.functional.pad(is_depot[..., :-2], (1, 0)) if nodes.shape[-1] > 1 else closes
    is_single = closes & before
    return closes, is_single, is_single.cumsum(dim=-1)


def state_flows(nodes: Tensor, log_z: Tensor, log_flow: Tensor, is_real: Tensor, problem: str) -> Tensor:
    """Return the logarithms of the flows through states, which detailed balance compares.

    Of an inner state it is the mean of the log-flows of the nodes visited so far (HBG, Eq. 8), of the first state log Z
    and of the last one 0: a forward-looking flow has the energy of its state taken out, and nothing else is left of
    that of a solution.

    Parameters
    ----------
    nodes : int64 [B, h, L]
        Giant tours.
    log_z : float [B]
    log_flow : float [B, N]
    is_real : bool [B, h, T]
        Transitions that are no padding.
    problem : {"tsp", "cvrp"}

    Returns
    -------
    float [B, h, T + 1]
    """
    rows, count, length = nodes.shape
    visited = log_flow.gather(1, nodes.flatten(1)).view(rows, count, length)
    mean = visited.cumsum(dim=-1) / torch.arange(1, length + 1, device=nodes.device)
    first = log_z[:, None, None].expand(-1, count, 1)
    if problem == "tsp":  # the first state is the empty path, the last one the closed tour
        return torch.cat([first, mean, torch.zeros_like(first)], dim=-1)
    is_end = ~torch.nn.functional.pad(is_real, (0, 1))
    return torch.cat([first, mean[..., 1:]], dim=-1).masked_fill(is_end, 0.0)


def trajectory_balance(steps: Transitions, log_z: Tensor, beta: float) -> Tensor:
    """Return ``(log Z + sum_t log P_F - log P_B + beta E)^2`` of each trajectory, float [B, h].

    P_B is uniform over the orders in which a solution can be built (HBG, Eq. 3 to 6).

    Parameters
    ----------
    steps : Transitions
    log_z : float [B]
    beta : float
        Inverse temperature of the solutions.
    """
    forward = steps.log_forward.sum(dim=-1)
    return (log_z[:, None] + forward - steps.log_backward_whole + beta * steps.solution_energy) ** 2


def balance_residuals(steps: Transitions, flows: Tensor, beta: float) -> Tensor:
    """Return ``log P_F + log F(s) - log P_B - log F(s') + beta (E(s') - E(s))`` of each transition s to s'.

    That is forward-looking detailed balance (HBG, Eq. 2). With the exact backward policy, the residuals of a trajectory
    add up to that of trajectory balance.

    Parameters
    ----------
    steps : Transitions
    flows : float [B, h, T + 1]
        Logarithms of the states' flows.
    beta : float

    Returns
    -------
    float [B, h, T]
        Zero for padding.
    """
    flow = flows[..., :-1] - flows[..., 1:]
    gained = beta * (steps.energy[..., 1:] - steps.energy[..., :-1])
    return torch.where(steps.is_real, steps.log_forward - steps.log_backward + flow + gained, 0.0)


def detailed_balance(steps: Transitions, flows: Tensor, beta: float) -> Tensor:
    """Return the mean of the squared residuals over the transitions of each trajectory, float [B, h].

    Eq. 10 of HBG adds them up; the released program takes the mean, so that the weight of detailed balance in the
    hybrid loss does not depend on the size of instances.
    """
    squared = balance_residuals(steps, flows, beta) ** 2
    return squared.sum(dim=-1) / steps.is_real.sum(dim=-1)


@dataclass(frozen=True)
class Balance:
    """Which condition a training enforces.

    Attributes
    ----------
    kind : {"tb", "db", "hybrid"}
    backward : {"paper", "exact"}
        Backward policy of detailed balance; that of trajectory balance is uniform over orders with either.
    """

    kind: str = "hybrid"
    backward: str = "exact"

    def __post_init__(self) -> None:
        if self.kind not in BALANCES:
            raise ValueError(f"unknown balance {self.kind!r}; known are {', '.join(BALANCES)}")
        if self.backward not in BACKWARDS:
            raise ValueError(f"unknown backward policy {self.backward!r}; known are {', '.join(BACKWARDS)}")

    def loss(self, steps: Transitions, log_z: Tensor, flows: Tensor | None, beta: float, weight: float) -> Tensor:
        """Return the mean loss: L_TB, L_DB, or ``L_TB + weight * L_DB`` (HBG, Eq. 11).

        ``flows`` are needed unless the balance is that of trajectories alone.
        """
        if self.kind == "tb":
            return trajectory_balance(steps, log_z, beta).mean()
        if flows is None:
            raise ValueError("detailed balance needs the flows of states")
        local = detailed_balance(steps, flows, beta).mean()
        return local if self.kind == "db" else trajectory_balance(steps, log_z, beta).mean() + weight * local
