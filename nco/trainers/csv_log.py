"""A log in one CSV file that a resumed run goes on writing."""

from __future__ import annotations

import csv
import os
from argparse import Namespace
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers.logger import Logger
from pytorch_lightning.utilities.rank_zero import rank_zero_only

METRICS = "metrics.csv"


class CSVLog(Logger):
    """Writes ``metrics.csv``, one row per logged step, each as soon as it is logged.

    Lightning's own CSV logger deletes the file of the run that is resumed. This one keeps its rows up to the first
    step that it logs itself: what a killed run had logged after its last checkpoint is logged again, and every step is
    there once. A row can be missing after a kill in the moment between the saving of a checkpoint and the logging of
    its step, after a kill in the midst of a validation, and where a validation lies within an accumulation.

    Parameters
    ----------
    folder : path-like
    """

    def __init__(self, folder: str | os.PathLike[str]):
        super().__init__()
        self.path = Path(folder) / METRICS
        self._fields: list[str] | None = None

    @property
    def name(self) -> str:
        """The run's folder has one log."""
        return ""

    @property
    def version(self) -> str:
        """A resumed run is the same run."""
        return ""

    @property
    def save_dir(self) -> str:
        """The run's folder."""
        return str(self.path.parent)

    @rank_zero_only
    def log_hyperparams(self, params: dict[str, Any] | Namespace, *args: Any, **kwargs: Any) -> None:
        """Write nothing: the run's recipe is saved beside the log."""

    @rank_zero_only
    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Append a row."""
        row = {"step": step, **metrics}
        if self._fields is None:
            kept = [other for other in self._rows() if int(other["step"]) < (step or 0)]
            self._rewrite([*kept, row])
        elif row.keys() - set(self._fields):
            self._rewrite([*self._rows(), row])
        else:
            with self.path.open("a", newline="") as file:
                csv.DictWriter(file, self._fields).writerow(row)

    def _rows(self) -> list[dict[str, Any]]:
        """Return the rows of the file, but no row that a kill has torn."""
        if not self.path.exists():
            return []
        with self.path.open(newline="") as file:
            return [row for row in csv.DictReader(file) if None not in row.values()]

    def _rewrite(self, rows: list[dict[str, Any]]) -> None:
        """Write all rows, under a header of all their keys."""
        self._fields = list(dict.fromkeys(key for row in rows for key in row))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".partial")
        with partial.open("w", newline="") as file:
            writer = csv.DictWriter(file, self._fields)
            writer.writeheader()
            writer.writerows(rows)
        os.replace(partial, self.path)
