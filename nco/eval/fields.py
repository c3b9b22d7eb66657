"""Strict reading of YAML: every key has its type, none is unknown, and complaints name the file and the key."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from nco.errors import UsageError

_REQUIRED: Any = object()
_NAMES = {str: "text", int: "a whole number", float: "a number", dict: "a mapping", list: "a list"}


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses a key given twice and reads 1e-3 as a number, as YAML 1.2 has it."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping without repeated keys."""
        seen = []
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)  # type: ignore[no-untyped-call]
            if key in seen:
                raise yaml.MarkedYAMLError(problem=f"the key {key!r} is given twice", problem_mark=key_node.start_mark)
            seen.append(key)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def load_yaml(path: Path) -> Any:
    """Return the content of a YAML file.

    Raises
    ------
    UsageError
        If the file is missing or no YAML, with the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is no UTF-8 text"
        raise UsageError(f"{path}: {reason}") from error
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f":{error.problem_mark.line + 1}"
        raise UsageError(f"{path}{line}: {error.problem}") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: {error}") from error


class Fields:
    """A mapping whose fields are taken one by one, so that what is left over can be refused.

    Parameters
    ----------
    value : object
        What the YAML holds.
    place : str
        The file, and the key that the mapping stands under; complaints begin with it.

    Raises
    ------
    UsageError
        If it is no mapping.
    """

    def __init__(self, value: Any, place: str):
        if not isinstance(value, dict):
            raise UsageError(f"{place}: must be a mapping of keys to values, not {value!r}")
        self._left = dict(value)
        self._known: list[str] = []
        self._place = place

    def has(self, key: str) -> bool:
        """Tell whether a field is there that has not been taken."""
        return key in self._left

    def take(
        self, key: str, kind: type, *, default: Any = _REQUIRED, lowest: int | None = None, above: float | None = None
    ) -> Any:
        """Return a field of one type; a whole number will do for a float.

        Raises
        ------
        UsageError
            If it is required and missing, has another type, is less than ``lowest`` or not above ``above``.
        """
        self._known.append(key)
        if key not in self._left:
            if default is _REQUIRED:
                raise UsageError(f"{self._place}: the key {key!r} is missing")
            return default
        value = self._left.pop(key)
        kinds: Any = (int, float) if kind is float else kind
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise self._fault(key, value, _NAMES[kind])
        if lowest is not None and value < lowest:
            raise self._fault(key, value, f"at least {lowest}")
        if above is not None and not value > above:
            raise self._fault(key, value, f"above {above}")
        return value

    def take_list(self, key: str) -> list[tuple[Any, str]]:
        """Return the entries of a list that is not empty, each with its place."""
        entries = self.take(key, list)
        if not entries:
            raise self._fault(key, entries, "a list with at least one entry")
        return [(entry, f"{self._place}: {key}[{number}]") for number, entry in enumerate(entries)]

    def finish(self) -> None:
        """Refuse the fields that nobody has taken.

        Raises
        ------
        UsageError
        """
        for key in self._left:
            raise UsageError(f"{self._place}: unknown key {key!r}; known are {', '.join(self._known)}")

    def _fault(self, key: str, value: Any, expected: str) -> UsageError:
        return UsageError(f"{self._place}: {key} must be {expected}, not {value!r}")
