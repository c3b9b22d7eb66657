"""Messages between the sandbox and its processes: JSON and raw bytes, so that nothing received can be code."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from typing import Any

_HEAD = struct.Struct(">II")
MAX_HEADER = 1 << 16
MAX_PAYLOAD = 1 << 28


def pack(header: Mapping[str, Any], payload: bytes = b"") -> bytes:
    """Return a message: two lengths, a JSON object, bytes."""
    text = json.dumps(header).encode()
    return _HEAD.pack(len(text), len(payload)) + text + payload


def unpack(read: Callable[[int], bytes]) -> tuple[dict[str, Any], bytes]:
    """Return the header and payload of the next message.

    Parameters
    ----------
    read : callable
        Returns exactly as many bytes as it is asked for.

    Raises
    ------
    ValueError
        If what comes is no message.
    """
    header_length, payload_length = _HEAD.unpack(read(_HEAD.size))
    if header_length > MAX_HEADER or payload_length > MAX_PAYLOAD:
        raise ValueError(f"a message of {header_length} + {payload_length} bytes")
    header = json.loads(read(header_length))
    if not isinstance(header, dict):
        raise ValueError("a message without a header")
    return header, read(payload_length)
