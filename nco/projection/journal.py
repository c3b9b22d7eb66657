"""The folder of one search: what was decided is appended line by line, and a killed search goes on where it was."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from nco.errors import UsageError

Record = dict[str, Any]


class Journal:
    """JSON records in ``journal.jsonl``, in the order of the search; to be used as a context manager.

    A last line of which a kill has left only a part is dropped.

    Parameters
    ----------
    folder : path-like
        Made if needed.
    description : mapping
        What is searched, in JSON's types. It is kept in ``search.json`` and must be the same whenever the folder is
        opened.

    Raises
    ------
    UsageError
        If the folder belongs to another search, naming what differs, or holds a broken record.
    """

    def __init__(self, folder: str | Path, description: Mapping[str, Any]):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._claim(json.loads(json.dumps(description)))
        self.path = self.folder / "journal.jsonl"
        self.records = read_lines(self.path)
        self._file = self.path.open("a", encoding="utf-8")

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def append(self, record: Mapping[str, Any]) -> Record:
        """Add a record, wait until the disk has it, and return it as it will be read again."""
        line = json.dumps(record)
        self._file.write(f"{line}\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.records.append(json.loads(line))
        return self.records[-1]

    def _claim(self, description: Record) -> None:
        """Write what is searched, or compare it with what the folder has."""
        place = self.folder / "search.json"
        if not place.exists():
            write_whole(place, json.dumps(description, indent=1) + "\n")
            return
        try:
            known = json.loads(place.read_text(encoding="utf-8"))
        except ValueError as error:
            raise UsageError(f"{place}: is not JSON: {error}") from error
        differing = [key for key in {**known, **description} if known.get(key) != description.get(key)]
        if differing:
            raise UsageError(f"{self.folder} holds another search ({', '.join(differing)} differ): give another folder")


def read_lines(path: Path) -> list[Record]:
    """Return the records of a file of JSON lines, after cutting off a last line that is not whole.

    Raises
    ------
    UsageError
        If a whole line is no record.
    """
    if not path.exists():
        return []
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(path, whole)
    records = []
    for number, line in enumerate(content[:whole].splitlines(), 1):
        try:
            record = json.loads(line)
        except ValueError as error:
            raise UsageError(f"{path}:{number}: is no record: {error}") from error
        if not isinstance(record, dict):
            raise UsageError(f"{path}:{number}: is no record")
        records.append(record)
    return records


def write_whole(path: Path, text: str) -> None:
    """Write a file under a temporary name, then move it to its place."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        unfinished.write_text(text, encoding="utf-8")
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
