from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pytest

from nco.cli import convert
from nco.data import Entry, read_entries, read_set, read_set_tours, write_folder
from nco.errors import UsageError
from nco.instance import Instance

LEHD_LINE = "0.1 0.2 0.3 0.4 0.5 0.9 output 1 3 2 1"


def nco_convert(*arguments: object) -> int:
    """Parse and run the command."""
    parser = argparse.ArgumentParser()
    convert.add_parser(parser.add_subparsers())
    return convert.run(parser.parse_args(["convert", *map(str, arguments)]))


def test_peer_s_file_to_a_set_and_on_to_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A text set becomes an .npz set and then a folder of files, with references and tours on the whole way."""
    (tmp_path / "peer.txt").write_text(f"{LEHD_LINE}\n{LEHD_LINE}\n")
    assert nco_convert(tmp_path / "peer.txt", tmp_path / "new" / "set.npz") == 0
    assert nco_convert(tmp_path / "new" / "set.npz", tmp_path / "folder") == 0
    assert nco_convert(tmp_path / "folder", tmp_path / "again.npz") == 0
    assert capsys.readouterr().out.count("2 instances, 2 with a reference") == 3
    for path in (tmp_path / "new" / "set.npz", tmp_path / "again.npz"):
        assert [routes[0].tolist() for routes in read_set_tours(path)] == [[0, 2, 1]] * 2
    first, again = read_set(tmp_path / "new" / "set.npz"), read_set(tmp_path / "again.npz")
    assert [one.reference for one in first] == [one.reference for one in again]
    np.testing.assert_array_equal(first[1].coords, again[1].coords)


def test_rounded_instances_become_a_set_only_without_rounding(tmp_path: Path) -> None:
    """A set holds unrounded distances, so EUC_2D files need to be told so."""
    write_folder([Entry(Instance("a", "tsp", np.eye(2) * 5, "EUC_2D"))], tmp_path / "folder")
    with pytest.raises(UsageError, match="rounding none"):
        nco_convert(tmp_path / "folder", tmp_path / "set.npz")
    assert nco_convert(tmp_path / "folder", tmp_path / "set.npz", "--rounding", "none") == 0
    assert read_set(tmp_path / "set.npz")[0].metric == "EXACT"


def test_library_folder_copies_whole(shared: Path, tmp_path: Path) -> None:
    """Converted into another folder, the CVRPs of CVRPLIB keep metric, ids, reference and solution."""
    source = shared / "bench" / "cvrplib" / "E-n13-k4.vrp"
    assert nco_convert(source, tmp_path) == 0
    ((old, old_routes),), ((new, routes),) = read_entries(source), read_entries(tmp_path)
    np.testing.assert_array_equal(old.weights, new.weights)
    assert (new.name, new.metric, new.reference) == (old.name, old.metric, old.reference)
    assert [route.tolist() for route in routes] == [route.tolist() for route in old_routes]
