"""Softened lengths and places, and attention that fades with distance."""

from __future__ import annotations

import math

import torch

from nco.nn.plane import attention_biases, distances, soften, soften_places


def test_lengths_beyond_one_grow_like_their_logarithm() -> None:
    """By hand: up to 1 as they are, e becomes 2."""
    torch.testing.assert_close(soften(torch.tensor([0.0, 0.5, 1.0, math.e])), torch.tensor([0.0, 0.5, 1.0, 2.0]))


def test_places_beyond_the_unit_circle_keep_their_bearing() -> None:
    """By hand: 5 in the direction (3, 4) becomes 1 + log 5 in it; what is no coordinate stays."""
    length = 1 + math.log(5)
    found = soften_places(torch.tensor([[3.0, 4.0, 7.0], [0.3, 0.4, 7.0]]))
    torch.testing.assert_close(found, torch.tensor([[0.6 * length, 0.8 * length, 7.0], [0.3, 0.4, 7.0]]))


def test_distances_are_euclidean() -> None:
    """As PyTorch finds them."""
    places = torch.rand(2, 5, 2, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(distances(places), torch.cdist(places, places), atol=1e-6, rtol=0)


def test_each_head_of_each_layer_subtracts_its_multiple_of_the_distance() -> None:
    """By hand for two points at distance 2, of which the second is hidden."""
    places = torch.tensor([[[0.0, 0.0], [2.0, 0.0]]])
    weights = torch.tensor([[1.0, 3.0], [0.5, 2.0]])
    first, second = attention_biases(2, torch.tensor([[True, False]]), places, weights.log())
    assert first is not None
    assert second is not None
    torch.testing.assert_close(first[0, :, 1, 0], torch.tensor([-2.0, -6.0]))
    torch.testing.assert_close(second[0, :, 1, 0], torch.tensor([-1.0, -4.0]))
    assert bool((first[..., 1] == -torch.inf).all())


def test_without_weights_only_hidden_tokens_are_masked() -> None:
    """All layers share one mask, or have none."""
    assert attention_biases(2, None, None, None) == [None, None]
    (bias,) = attention_biases(1, torch.tensor([[True, False]]), None, None)
    assert bias is not None
    assert bias.tolist() == [[[[0.0, -math.inf]]]]
