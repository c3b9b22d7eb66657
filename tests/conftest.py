"""Fixtures that many tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of fixtures, test sets and labels that lies beside the checkout, or skip the test.

    ``NCO_SHARED`` names another place for it.
    """
    folder = Path(os.environ.get("NCO_SHARED", Path(__file__).resolve().parents[2] / "shared"))
    if not folder.is_dir():
        pytest.skip(f"the shared test data is not at {folder}; NCO_SHARED may name its place")
    return folder
