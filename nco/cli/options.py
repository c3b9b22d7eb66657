"""``key=value`` options on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from nco.errors import UsageError


def parse_options(pairs: Iterable[str]) -> dict[str, Any]:
    """Turn ``key=value`` words into options; a value is JSON where it can be read as such (numbers, true, null, lists).

    Raises
    ------
    UsageError
        If a word is not of that form, or a key comes twice.
    """
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not key or not equals:
            raise UsageError(f"an option must have the form key=value, not {pair!r}")
        if key in options:
            raise UsageError(f"the option {key!r} is given twice")
        try:
            options[key] = json.loads(text)
        except json.JSONDecodeError:
            options[key] = text
    return options
