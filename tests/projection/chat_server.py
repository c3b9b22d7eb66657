"""A server on the loopback that speaks the OpenAI chat protocol, with scripted answers and faults."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# What comes next: the text of an answer, an HTTP status, raw bytes as the body, or seconds to keep silent.
Scene = str | int | bytes | float


class ChatServer:
    """What the server has been asked, and what it will say: scenes, the last one again and again."""

    def __init__(self, scenes: list[Scene]):
        self.scenes = scenes
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.url = ""

    def next_scene(self) -> Scene:
        """Return the scene of the last request."""
        return self.scenes[min(len(self.requests), len(self.scenes)) - 1]


@contextmanager
def chat_server(*scenes: Scene) -> Iterator[ChatServer]:
    """Run a server while the context lasts."""
    chat = ChatServer(list(scenes))
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(chat)) as server:
        chat.url = f"http://127.0.0.1:{server.server_address[1]}/some/path/v1"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield chat
        finally:
            server.shutdown()


def _handler(chat: ChatServer) -> Callable[..., BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            chat.requests.append({"path": self.path, **json.loads(self.rfile.read(length))})
            chat.keys.append(self.headers["Authorization"])
            scene = chat.next_scene()
            if isinstance(scene, float):
                time.sleep(scene)
                scene = "too late"
            if isinstance(scene, int):
                self._send(scene, json.dumps({"error": {"message": f"status {scene}"}}).encode())
            elif isinstance(scene, bytes):
                self._send(200, scene)
            else:
                self._send(200, json.dumps(completion(scene)).encode())

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(BrokenPipeError):  # the client may not have waited
                self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    return Handler


def completion(text: str | None) -> dict[str, Any]:
    """Return the body of an answer."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "served-model",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 700, "completion_tokens": 50, "total_tokens": 750},
    }
