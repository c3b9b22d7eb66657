"""Train a toy CVRP policy by REINFORCE, with nothing but the environment: `python scripts/toy_policy.py`."""

from collections.abc import Iterator

import torch
from torch import nn

from nco.envs import CVRPEnv
from nco.instance import InstanceBatch


def train(steps: int, rng: torch.Generator, rows: int = 128, nodes: int = 13) -> Iterator[float]:
    """Yield the mean cost of each step's random instances, solved by sampling from the policy as it then is."""
    env, policy = CVRPEnv(), nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 1))
    for weights in policy.parameters():
        nn.init.normal_(weights, std=0.1, generator=rng)
    optimiser = torch.optim.Adam(policy.parameters(), lr=0.01)
    for _ in range(steps):
        demand = torch.randint(1, 10, (rows, nodes), generator=rng) * (torch.arange(nodes) > 0)
        batch = InstanceBatch(torch.rand(rows, nodes, 2, generator=rng), demand, torch.full((rows,), 20))
        state, log_prob = env.reset(batch), torch.zeros(rows)
        while not env.done(state).all():
            ends = torch.stack([batch.coords[torch.arange(rows), state.last], batch.coords[:, 0]], dim=1)
            features = torch.cat([torch.cdist(batch.coords, ends), demand[..., None] / 20], dim=-1)
            scores = policy(features).squeeze(-1).masked_fill(~env.append_mask(state), -torch.inf)
            node = torch.multinomial(scores.softmax(dim=1), 1, generator=rng)
            log_prob = log_prob + scores.log_softmax(dim=1).gather(1, node).squeeze(1)
            state = env.append(state, node.squeeze(1))
        cost = env.cost(batch, env.tours(state))
        optimiser.zero_grad()
        ((cost - cost.mean()) * log_prob).mean().backward()
        optimiser.step()
        yield float(cost.mean())


if __name__ == "__main__":
    for step, cost in enumerate(train(100, torch.Generator().manual_seed(0))):
        print(f"step {step:3d}  mean cost {cost:.3f}")
