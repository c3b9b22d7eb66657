"""The shelves are found beside a checkout and inside a wheel."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import nco

CHECKOUT = Path(nco.__file__).parents[1]


def test_a_checkout_keeps_its_shelves_beside_the_package() -> None:
    """An editable install finds the folders of the checkout."""
    assert nco.shelf("scripts") == CHECKOUT / "scripts"


def test_an_unknown_shelf_is_refused() -> None:
    """Only the five shelves have a place."""
    with pytest.raises(ValueError, match="no shelf named 'books'"):
        nco.shelf("books")


def test_a_wheel_carries_its_shelves(tmp_path: Path) -> None:
    """Installed from a wheel, away from any checkout, the package finds the shelves' files inside itself."""
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path]
    # Built from a copy: setuptools leaves a build folder behind.
    source = tmp_path / "source"
    names = subprocess.run(["git", "ls-files", "-z"], cwd=CHECKOUT, check=True, capture_output=True).stdout
    for name in names.decode().split("\0")[:-1]:
        if not name.startswith("tests/") and (CHECKOUT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((CHECKOUT / name).read_bytes())
    subprocess.run([*build, source], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    program = "import nco; print(nco.shelf('scripts').joinpath('demo.py').is_file(), nco.shelf('models'))"
    found = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(site), "PATH": ""},
        check=True,
        capture_output=True,
        text=True,
    )
    assert found.stdout.split() == ["True", str(site / "nco" / "_shelves" / "models")]
