"""The allow-list over a program's syntax tree."""

from __future__ import annotations

import hostile
import pytest
import torch

from nco.projection.check import LINALG, MATH, MEMBERS, TORCH, ProgramFailure, checked_tree
from nco.projection.program import as_map, compile_program

# These compute on numbers and tensors alone, so the list has nothing against them; the sandbox has to hold them.
ONLY_CONTAINED = {"integer_bomb", "tensor_bomb", "growing_tensor", "list_bomb"}

ORDINARY = """
EPSILON = 1e-6


def longest(v: torch.Tensor) -> torch.Tensor:
    '''A helper.'''
    return torch.linalg.norm(v, dim=-1, keepdim=True).amax(dim=1, keepdim=True)


def project(points: torch.Tensor, power=0.5) -> torch.Tensor:
    '''Zoom about the last node.'''
    last = points[:, -1:]
    moved = points - last
    scale = longest(moved)
    for step in range(3):
        scale = scale ** power if step < 1 else scale
    x, y = moved.unbind(-1)
    moved = torch.stack([x, y], dim=-1)
    if points.shape[1] > 3 and math.pi > 3:
        moved = torch.where(scale > EPSILON, moved / scale, moved)
    return torch.einsum("bsi,ij->bsj", moved, torch.eye(2, dtype=points.dtype)) + 0.5
"""


def test_ordinary_program_passes() -> None:
    """What a projection needs is allowed: helpers, constants, annotations, docstrings, bounded loops, einsum."""
    points = torch.rand(2, 5, 2)
    assert compile_program(ORDINARY)(points).shape == points.shape


@pytest.mark.parametrize("name", sorted(set(hostile.sources()) - ONLY_CONTAINED))
def test_hostile_program_is_refused(name: str) -> None:
    """No program of the corpus passes the check, but for those that only compute too much."""
    with pytest.raises(ProgramFailure) as caught:
        checked_tree(hostile.sources()[name])
    assert caught.value.kind in ("forbidden", "syntax")


def test_corpus_is_large() -> None:
    """The corpus has over a hundred programs, all different."""
    programs = hostile.sources()
    assert len(set(programs.values())) == len(programs) > 100


@pytest.mark.parametrize("name", sorted(TORCH | {f"linalg.{one}" for one in LINALG}))
def test_listed_torch_names_exist(name: str) -> None:
    """Every listed name is one of torch's."""
    found = torch
    for part in name.split("."):
        found = getattr(found, part)


def test_listed_members_are_harmless() -> None:
    """No listed name has an underscore at an end: nothing private, and nothing that works in place."""
    for name in TORCH | LINALG | MATH | MEMBERS:
        assert not name.startswith("_") and not name.endswith("_")


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        ("", "syntax", "there is no program"),
        ("def project(points):\n    return (", "syntax", "line 2"),
        ("def other(points):\n    return points", "forbidden", "defines no function project"),
        ("def project(points, other):\n    return points", "forbidden", "exactly one argument"),
        ("def project(points):\n    return points.data", "forbidden", "line 2: the attribute 'data'"),
        ("def project(points):\n    return torch.load(points)", "forbidden", "torch.load is not on the list"),
        ("def project(points):\n    return points + os", "forbidden", "the name 'os'"),
        ("def project(points):\n    return points\n" * 2, "forbidden", "'project' is defined twice"),
        ("# " + "x" * 9000, "forbidden", "characters"),
        ("def project(points):\n    return points" + " + 1" * 900, "forbidden", "levels of nesting"),
        ("def project(points):\n    return 1e300 * points", "forbidden", "a number above"),
        ("def project(points):\n    torch = 1\n    return points", "forbidden", "the name 'torch' is taken"),
        ("def project(points):\n    return points.sum(out=points)", "forbidden", "the keyword out"),
    ],
)
def test_complaint_names_the_place(source: str, kind: str, message: str) -> None:
    """A refusal has its kind and says what is wrong, with the line where there is one."""
    with pytest.raises(ProgramFailure, match=message) as caught:
        checked_tree(source)
    assert caught.value.kind == kind


def test_steps_are_counted_through_calls() -> None:
    """Loops in helpers multiply: a program whose helpers call one another too often is refused."""
    helper = "def f{}(x):\n    for i in range(60):\n        x = {}\n    return x\n"
    first, second = helper.format(1, "x + 1"), helper.format(2, "f1(x)")
    project = "def project(points):\n    return f1(points)\n"
    checked_tree(first + project)
    with pytest.raises(ProgramFailure, match=r"f2 may take \d+ steps"):
        checked_tree(first + second + project)


def test_map_hides_missing_candidates() -> None:
    """Rows with different numbers of candidates are projected as if each were alone and whole."""
    project = compile_program("def project(points):\n    return points - points.mean(dim=1, keepdim=True)\n")
    points = torch.rand(3, 7, 2)
    mask = torch.ones(3, 7, dtype=torch.bool)
    mask[1, 4:6] = False
    mask[2, 2] = False
    projected = as_map(project)(points, mask)
    for row in range(3):
        kept = points[row, mask[row]]
        torch.testing.assert_close(projected[row, mask[row]], kept - kept.mean(dim=0))
