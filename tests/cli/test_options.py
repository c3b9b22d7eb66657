from __future__ import annotations

import pytest

from nco.cli.options import parse_options
from nco.errors import UsageError


def test_values_have_the_type_they_look_like() -> None:
    """Numbers, truth values, null and lists are JSON, and anything else is text, equals signs included."""
    words = ["runs=1", "alpha=1e-3", "fast=true", "limit=null", "demand=1-10", "sizes=[1,2]", "command=a=b", "empty="]
    assert parse_options(words) == {
        "runs": 1,
        "alpha": 1e-3,
        "fast": True,
        "limit": None,
        "demand": "1-10",
        "sizes": [1, 2],
        "command": "a=b",
        "empty": "",
    }


@pytest.mark.parametrize(
    ("words", "reason"), [(["runs"], "key=value"), (["=1"], "key=value"), (["a=1", "a=2"], "twice")]
)
def test_malformed_options_are_refused(words: list[str], reason: str) -> None:
    """A word without a key or a value, and a key given twice, are errors."""
    with pytest.raises(UsageError, match=reason):
        parse_options(words)
