"""Files of keywords and sections of numbers, the common frame of TSPLIB95 instances and tours.

A line that starts with a letter is a keyword with its value; a keyword that ends in ``_SECTION`` is followed by lines
of numbers up to the next keyword. Every error names the line.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nco.errors import InstanceFormatError

# Rows that are turned into numbers together: bounds the memory for their tokens, whatever the file's size.
_ROWS_AT_ONCE = 4096


def read_lines(path: str | Path) -> list[str]:
    """Return the lines of a text file, whatever its line ends.

    Bytes that are not UTF-8 (names and comments in older encodings) become replacement characters.

    Raises
    ------
    InstanceFormatError
        If the file cannot be opened, is empty or is not text.
    """
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise InstanceFormatError(f"cannot be read: {error.strerror}", path) from error
    if not raw.strip():
        raise InstanceFormatError("the file is empty", path, 1)
    if b"\0" in raw:
        raise InstanceFormatError("this is not a text file", path, raw[: raw.index(b"\0")].count(b"\n") + 1)
    text = raw.decode("utf-8-sig", errors="replace")
    return text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")


def parse_number(token: str) -> float | None:
    """Return a finite number, or None for a token that is none; Python's digit underscores are not numbers here."""
    try:
        value = float(token)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in token else None


def is_whole(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tell which finite numbers are whole, and small enough for float64 to hold every whole number up to them."""
    return (values == np.floor(values)) & (np.abs(values) <= 2**53)


def format_number(value: float) -> str:
    """Return the shortest text that reads back as the same float64, whole numbers without a point."""
    return repr(float(value)).removesuffix(".0")


class Field(NamedTuple):
    """A keyword's value and its 1-based line."""

    value: str
    line: int


@dataclass(frozen=True, eq=False)
class Section:
    """The numbers that follow a section keyword.

    Attributes
    ----------
    keyword : str
    line : int
        1-based line of the keyword.
    rows : list of str
        The lines of the section; the first is the rest of the keyword's own line.
    path : Path
        The file, for error messages.
    """

    keyword: str
    line: int
    rows: list[str]
    path: Path

    def fault(self, reason: str, line: int) -> InstanceFormatError:
        """Return the error that says what is wrong in this section, at a line."""
        return InstanceFormatError(f"{self.keyword}: {reason}", self.path, line)

    @property
    def end(self) -> int:
        """1-based line of the last row that is not blank."""
        filled = [offset for offset, row in enumerate(self.rows) if row.strip()]
        return self.line + (filled[-1] if filled else 0)

    def line_of(self, index: int) -> int:
        """Return the 1-based line on which the number with this 0-based index stands."""
        before = 0
        for offset, row in enumerate(self.rows):
            before += len(row.split())
            if before > index:
                return self.line + offset
        return self.end

    def numbers(self) -> NDArray[np.float64]:
        """Return all numbers of the section, however they are spread over its lines, float64 [M].

        Raises
        ------
        InstanceFormatError
            At the first token that is not a finite number.
        """
        parts = [np.empty(0)]
        for start in range(0, len(self.rows), _ROWS_AT_ONCE):
            text = " ".join(self.rows[start : start + _ROWS_AT_ONCE])
            try:
                values = np.array(text.split(), dtype=np.float64)
            except ValueError:
                raise self._not_a_number(start) from None
            if "_" in text or not np.isfinite(values).all():
                raise self._not_a_number(start)
            parts.append(values)
        return np.concatenate(parts)

    def _not_a_number(self, start: int) -> InstanceFormatError:
        """Find the first token from a row on that is not a finite number."""
        for offset, row in enumerate(self.rows[start:], start):
            for token in row.split():
                if parse_number(token) is None:
                    return self.fault(f"{token!r} is not a finite number", self.line + offset)
        raise AssertionError("called although every token is a number")

    def table(self, columns: int, what: str) -> NDArray[np.float64]:
        """Return the section as one row of numbers per line, float64 [M, columns]; blank lines are skipped.

        Raises
        ------
        InstanceFormatError
            At the first line with another number of values than ``columns``, which ``what`` names.
        """
        for offset, row in enumerate(self.rows):
            width = len(row.split())
            if width not in (0, columns):
                raise self.fault(f"a line must hold {what}, this one has {width} values", self.line + offset)
        return self.numbers().reshape(-1, columns)

    def integers(self, numbers: NDArray[np.float64], first: int = 0, step: int = 1) -> NDArray[np.int64]:
        """Return every ``step``-th of the section's numbers from ``first`` on as whole numbers.

        Raises
        ------
        InstanceFormatError
            At the first of them that is not whole.
        """
        values = numbers.ravel()[first::step]
        whole = is_whole(values)
        if not whole.all():
            row = int(np.argmin(whole))
            token = format_number(values[row])
            raise self.fault(f"{token} is not a whole number", self.line_of(first + step * row))
        return values.astype(np.int64)

    def listing(self) -> NDArray[np.int64]:
        """Return the whole numbers of a list that -1 ends; the -1 may be missing before the next keyword.

        Raises
        ------
        InstanceFormatError
            If something other than a further -1 follows the end of the list.
        """
        values = self.integers(self.numbers())
        ends = np.flatnonzero(values == -1)
        if not len(ends):
            return values
        surplus = np.flatnonzero(values[ends[0] :] != -1)
        if len(surplus):
            index = int(ends[0] + surplus[0])
            raise self.fault(f"{values[index]} follows the -1 that ends the list", self.line_of(index))
        return values[: ends[0]]


class KeywordFile:
    """A file split into its fields and sections.

    Parameters
    ----------
    path : path-like
    keywords : collection of str
        The keywords that may occur, in upper case.
    refused : mapping of str to str, optional
        Keywords that are known but not supported, and what they stand for.

    Attributes
    ----------
    path : Path
    fields : dict of str to Field
        ``KEY: value`` lines by upper-case key; only COMMENT may occur more than once.
    sections : dict of str to Section
    last_line : int
        1-based number of the last line.

    Raises
    ------
    InstanceFormatError
        If the file cannot be read, a keyword may not occur or occurs twice, or numbers stand outside a section.
    """

    def __init__(self, path: str | Path, keywords: Collection[str], refused: Mapping[str, str] = MappingProxyType({})):
        self.path = Path(path)
        self.fields: dict[str, Field] = {}
        self.sections: dict[str, Section] = {}
        lines = read_lines(path)
        self.last_line = len(lines)
        rows: list[str] | None = None
        for number, line in enumerate(lines, 1):
            text = line.strip()
            if not text[:1].isalpha():
                if rows is not None:
                    rows.append(line)
                elif text:
                    raise self.fault(f"{text.split()[0]!r} stands outside a section", number)
                continue
            key, value = _split_keyword(text)
            if key == "EOF":
                self.last_line = number
                break
            if key in refused:
                raise self.fault(f"{key}: {refused[key]} is not supported", number)
            if key not in keywords:
                raise self.fault(f"the keyword {key!r} is unknown or not supported", number)
            if key in self.sections or (key in self.fields and key != "COMMENT"):
                raise self.fault(f"{key} occurs twice", number)
            rows = None
            if key.endswith("_SECTION"):
                rows = [value]
                self.sections[key] = Section(key, number, rows, self.path)
            else:
                self.fields[key] = Field(value, number)

    def fault(self, reason: str, line: int | None = None) -> InstanceFormatError:
        """Return the error that says what is wrong at a line, by default the last."""
        return InstanceFormatError(reason, self.path, self.last_line if line is None else line)

    def field(self, key: str) -> Field:
        """Return a field that must be there."""
        if key not in self.fields:
            raise self.fault(f"{key} is missing")
        return self.fields[key]

    def word(self, key: str) -> Field:
        """Return the first word, in upper case, of a field that must be there; some files add remarks behind it."""
        value, line = self.field(key)
        if not value:
            raise self.fault(f"{key} has no value", line)
        return Field(value.split()[0].upper(), line)

    def section(self, key: str) -> Section:
        """Return a section that must be there."""
        if key not in self.sections:
            raise self.fault(f"{key} is missing")
        return self.sections[key]

    def whole_number(self, key: str, minimum: int) -> int:
        """Return the value of a field that must be there and hold a whole number; "100.0" and "1e2" are."""
        text, line = self.field(key)
        value = parse_number(text)
        if value is None or not is_whole(np.array(value)):
            raise self.fault(f"{key} must be a whole number, not {text!r}", line)
        if value < minimum:
            raise self.fault(f"{key} must be at least {minimum}, is {text}", line)
        return int(value)


def _split_keyword(text: str) -> tuple[str, str]:
    """Split "KEY : value", "KEY: value", "KEY:value", "KEY = value" or "KEY value"."""
    length = next((i for i, letter in enumerate(text) if not (letter.isalnum() or letter == "_")), len(text))
    value = text[length:].lstrip()
    return text[:length].upper(), value[value[:1] in (":", "=") :].strip()
