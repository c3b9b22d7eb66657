"""What a program must keep to before it is scored."""

from __future__ import annotations

import pytest
import torch

from nco.projection.check import ProgramFailure
from nco.projection.contract import check_contract
from nco.projection.grammar import PUBLISHED, source
from nco.projection.program import compile_program


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_published_maps_keep_the_contract(name: str) -> None:
    """The published maps pass."""
    check_contract(compile_program(source(PUBLISHED[name])))


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ("return 1", "contract", "returns a int"),
        ("return points[:, 1:]", "contract", "has the shape"),
        ("return points.double()", "contract", "has the dtype torch.float64"),
        ("return points / 0", "non-finite", "8 ordinary rows"),
        ("return points / (points.amax(1, keepdim=True) - points.amin(1, keepdim=True))", "non-finite", "coincide"),
        ("points[:, 0] = 0\n    return points", "contract", "changes its argument"),
        ("return points - points.amin(0, keepdim=True)", "contract", "depends on the other rows"),
        ("return points - points[:, 1:2]", "contract", "depends on the order"),
        ("return points.sort(dim=1).values", "contract", "depends on the order"),
    ],
)
def test_breach_is_named(body: str, kind: str, message: str) -> None:
    """Each breach has its kind, and the message says which input has shown it."""
    project = compile_program(f"def project(points):\n    {body}\n")
    with pytest.raises(ProgramFailure, match=message) as caught:
        check_contract(project)
    assert caught.value.kind == kind


def test_argument_is_not_given_away() -> None:
    """The probe stays what it is, whatever a program does to its argument."""
    from nco.projection.contract import probe_points

    def spoil(points: torch.Tensor) -> torch.Tensor:
        points.zero_()
        return points

    before = probe_points()
    with pytest.raises(ProgramFailure):
        check_contract(spoil)
    assert torch.equal(before, probe_points())
