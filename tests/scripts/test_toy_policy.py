"""The README's example of an environment in use."""

from __future__ import annotations

import runpy

import torch

import nco


def test_toy_policy_learns() -> None:
    """Forty steps of REINFORCE lower the mean cost by more than a tenth."""
    train = runpy.run_path(str(nco.shelf("scripts") / "toy_policy.py"))["train"]
    costs = list(train(40, torch.Generator().manual_seed(0), rows=64))
    assert sum(costs[-5:]) < 0.9 * sum(costs[:5])
