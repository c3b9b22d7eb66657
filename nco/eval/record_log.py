"""The folder of one evaluation: records are appended as soon as they are known, and a killed run resumes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from nco.errors import UsageError
from nco.eval.records import Record, to_json

Key = tuple[int, str]


class RecordLog:
    """Records by the number of their instance and the label of their solver, one JSON line each in ``records.jsonl``.

    The last line, if a kill has left half of it, is dropped. To be used as a context manager.

    Parameters
    ----------
    folder : path-like
        Made if needed.
    description : mapping
        What is evaluated, in JSON's types. It is kept in ``suite.json`` and must be the same whenever the folder is
        opened.
    forget : callable, optional
        Tells which of the records that are there to drop.

    Raises
    ------
    UsageError
        If the folder belongs to another evaluation, naming what differs, or holds a broken record.
    """

    def __init__(
        self, folder: str | Path, description: Mapping[str, Any], forget: Callable[[Record], bool] | None = None
    ):
        self.folder = Path(folder)
        self.path = self.folder / "records.jsonl"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._claim(json.loads(json.dumps(description)))
        self._records = self._read()
        kept = {key: record for key, record in self._records.items() if forget is None or not forget(record)}
        if len(kept) < len(self._records):
            _write_whole(self.path, "".join(f"{to_json(record)}\n" for record in kept.values()))
            self._records = kept
        self._file = self.path.open("a", encoding="utf-8")

    def __enter__(self) -> RecordLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def __len__(self) -> int:
        return len(self._records)

    def get(self, instance: int, solver: str) -> Record | None:
        """Return the record of a pair, or None where it is not known yet."""
        return self._records.get((instance, solver))

    def select(self, pairs: Iterable[Key]) -> list[Record]:
        """Return the records of those pairs that are known, in the order of the pairs."""
        return [self._records[pair] for pair in pairs if pair in self._records]

    def append(self, records: Sequence[Record]) -> None:
        """Add records and wait until the disk has them; they are known as they will be read again."""
        lines = [to_json(record) for record in records]
        # One write for all: a kill leaves either none of them or a beginning whose last line may be cut.
        self._file.write("".join(f"{line}\n" for line in lines))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._records.update((_key(record), record) for record in map(json.loads, lines))

    def _claim(self, description: dict[str, Any]) -> None:
        """Write what is evaluated, or compare it with what the folder has."""
        place = self.folder / "suite.json"
        if not place.exists():
            if self.path.exists():
                raise UsageError(f"{self.folder}: has records but no suite.json that says of what")
            _write_whole(place, json.dumps(description, indent=1, ensure_ascii=False) + "\n")
            return
        try:
            known = json.loads(place.read_text(encoding="utf-8"))
        except ValueError as error:
            raise UsageError(f"{place}: is not JSON: {error}") from error
        differing = [key for key in {**known, **description} if known.get(key) != description.get(key)]
        if differing:
            raise UsageError(
                f"{self.folder} holds another evaluation ({', '.join(differing)} differ): give another folder"
            )

    def _read(self) -> dict[Key, Record]:
        """Return the records that are there, without a last line that was cut."""
        if not self.path.exists():
            return {}
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(self.path, whole)
        records = {}
        for number, line in enumerate(content[:whole].splitlines(), 1):
            try:
                record = json.loads(line)
                records[_key(record)] = record
            except (ValueError, KeyError, TypeError) as error:
                raise UsageError(f"{self.path}:{number}: is no record: {error}") from error
        return records


def _key(record: Record) -> Key:
    return record["instance"], record["solver"]


def _write_whole(path: Path, text: str) -> None:
    """Write a file under a temporary name, then move it to its place."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        unfinished.write_text(text, encoding="utf-8")
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
