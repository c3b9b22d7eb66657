"""The log of a run in one CSV file, over several processes."""

from __future__ import annotations

import csv
from pathlib import Path

from nco.trainers.csv_log import CSVLog


def rows(folder: Path) -> list[dict[str, str]]:
    """Return what the file says."""
    with (folder / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def test_rows_are_on_disk_as_soon_as_they_are_logged(tmp_path: Path) -> None:
    """A kill loses none of them; a figure that comes later gets a column of its own."""
    log = CSVLog(tmp_path / "run")
    log.log_metrics({"loss": 0.5}, 0)
    assert rows(tmp_path / "run") == [{"step": "0", "loss": "0.5"}]
    log.log_metrics({"gap": 3.0}, 0)
    log.log_metrics({"loss": 0.25}, 1)
    assert [list(row.values()) for row in rows(tmp_path / "run")] == [
        ["0", "0.5", ""],
        ["0", "", "3.0"],
        ["1", "0.25", ""],
    ]


def test_a_resumed_run_goes_on_in_the_same_file(tmp_path: Path) -> None:
    """Rows from the first step on that is logged again are replaced."""
    first = CSVLog(tmp_path)
    for step in range(6):
        first.log_metrics({"loss": step}, step)
    second = CSVLog(tmp_path)
    for step in (4, 5, 6):
        second.log_metrics({"loss": 10 * step}, step)
    assert [(row["step"], row["loss"]) for row in rows(tmp_path)] == [
        ("0", "0"), ("1", "1"), ("2", "2"), ("3", "3"), ("4", "40"), ("5", "50"), ("6", "60"),
    ]  # fmt: skip


def test_a_row_torn_by_a_kill_is_left_out(tmp_path: Path) -> None:
    """The last line may have been written in part; its step would be read wrong."""
    (tmp_path / "metrics.csv").write_text("step,loss\n99,1\n1")
    CSVLog(tmp_path).log_metrics({"loss": 3.0}, 150)
    assert rows(tmp_path) == [{"step": "99", "loss": "1"}, {"step": "150", "loss": "3.0"}]
