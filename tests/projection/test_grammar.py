"""The grammar of projection programs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from nco.projection import grammar
from nco.projection.contract import check_contract, probe_points
from nco.projection.grammar import CONSTANTS, PARTS, PUBLISHED, Sentence
from nco.projection.program import compile_program


@pytest.mark.parametrize("kind", ["", "outside.", "degenerate."])
@pytest.mark.parametrize("name", sorted(set(PUBLISHED) - {"none"}))
def test_published_maps_are_sentences(shared: Path, name: str, kind: str) -> None:
    """The program of each published map computes what the published map does."""
    fixture = load_file(shared / "parity" / "projections.safetensors")
    project = compile_program(grammar.source(PUBLISHED[name]))
    torch.testing.assert_close(project(fixture[f"{kind}input"]), fixture[f"{kind}out.{name}"], rtol=0, atol=1e-12)


def test_identity_is_a_sentence() -> None:
    """The sentence called none moves nothing."""
    torch.testing.assert_close(compile_program(grammar.source(PUBLISHED["none"]))(probe_points()), probe_points())


@pytest.mark.parametrize("part", list(PARTS))
def test_every_choice_keeps_the_contract(part: str) -> None:
    """Whatever is chosen for one part, in a random sentence, makes a program that keeps the contract."""
    rng = np.random.default_rng(3)
    for choice in PARTS[part]:
        for _ in range(4):
            sentence = Sentence(**{**grammar.draw(rng).genes, part: choice})
            check_contract(compile_program(grammar.source(sentence)))


def test_choices_differ_in_behaviour() -> None:
    """No two choices of a part make the same program of a sentence that uses them all."""
    base = Sentence("all", "mean", "principal", "expm1", "rms", "half", "soft", 0.7, 0.8, 0.9)
    points = 4 * probe_points()
    for part, choices in PARTS.items():
        made = [compile_program(grammar.source(Sentence(**{**base.genes, part: one})))(points) for one in choices]
        for index, one in enumerate(made):
            for other in made[index + 1 :]:
                assert (one - other).abs().max() > 1e-4, part


def test_e1_shares_nothing_with_its_parents() -> None:
    """A sentence that is to differ has no choice in common with its parents where there are others."""
    rng = np.random.default_rng(5)
    for _ in range(30):
        parents = [grammar.draw(rng), grammar.draw(rng)]
        child = grammar.differ(parents, rng)
        for part, choices in PARTS.items():
            taken = {getattr(parent, part) for parent in parents}
            assert getattr(child, part) not in taken or len(taken) == len(choices)


def test_e2_keeps_what_parents_share() -> None:
    """A sentence that is to share keeps every choice that its parents have in common."""
    rng = np.random.default_rng(7)
    for _ in range(30):
        first, second = grammar.draw(rng), grammar.draw(rng)
        child = grammar.share([first, second], rng)
        for part in PARTS:
            if getattr(first, part) == getattr(second, part):
                assert getattr(child, part) == getattr(first, part)


def test_m1_changes_one_part() -> None:
    """A varied sentence differs from its parent in one part; in the offset too only where the anchor is the part."""
    rng = np.random.default_rng(9)
    for _ in range(30):
        parent = grammar.draw(rng)
        child = grammar.vary(parent, rng)
        changed = {part for part in PARTS if getattr(parent, part) != getattr(child, part)}
        assert changed == {"anchor", "offset"} or len(changed) == 1


def test_m2_changes_only_constants_within_range() -> None:
    """A tuned sentence keeps its parts, and its constants stay in their ranges."""
    rng = np.random.default_rng(11)
    for _ in range(30):
        parent = grammar.draw(rng)
        child = grammar.tune(parent, rng)
        assert all(getattr(parent, part) == getattr(child, part) for part in PARTS)
        assert child != parent
        assert all(low <= getattr(child, name) <= high for name, (low, high) in CONSTANTS.items())


def test_m3_makes_sentences_neutral() -> None:
    """Simplifying again and again ends at a sentence with no removable part left."""
    rng = np.random.default_rng(13)
    sentence = Sentence("all", "mean", "principal", "expm1", "rms", "half", "soft", 0.7, 0.8, 0.9)
    for _ in range(5):
        sentence = grammar.simplify(sentence, rng)
    assert all(getattr(sentence, part) == neutral for part, neutral in grammar.NEUTRAL.items())
    assert sentence.stretch == sentence.exponent == sentence.sharpness == 1.0


def test_sentences_come_back_from_their_genes() -> None:
    """A sentence read back from its genes is the same; an unknown choice is refused."""
    sentence = grammar.draw(np.random.default_rng(15))
    assert Sentence.from_genes(sentence.genes) == sentence
    with pytest.raises(ValueError, match="no anchor 'moon'"):
        Sentence.from_genes({**sentence.genes, "anchor": "moon"})
