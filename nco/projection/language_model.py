"""Proposers that ask a language model, and that replay what one has answered.

Requests and answers are kept in a file of JSON lines. An answer is found again by the hash of its request (model,
temperature, the number of the program and the messages without scores), so a search that was killed asks nothing
twice, and a whole search can be replayed without an endpoint.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nco.errors import SolverUnavailable, UsageError
from nco.projection.journal import Record, read_lines
from nco.projection.prompts import VERSION, messages, parse_answer
from nco.projection.proposers import Proposal, ProposerError, Request


class Exchanges:
    """Requests and answers by their keys, appended to a file."""

    def __init__(self, path: Path):
        self.path = path
        self._answers = {record["key"]: record for record in read_lines(path)}

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, key: str) -> Record | None:
        """Return the record with a key, or None."""
        return self._answers.get(key)

    def append(self, record: Record) -> None:
        """Add a record and wait until the disk has it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._answers[record["key"]] = record


@dataclass(frozen=True)
class Patience:
    """How long an endpoint is tried for one answer.

    Attributes
    ----------
    attempts : int
    seconds : float
        For all attempts together, waiting included.
    timeout : float
        Seconds for one attempt.
    first_wait : float
        Seconds before the second attempt; doubled before each further one, at most a minute.
    """

    attempts: int = 8
    seconds: float = 600.0
    timeout: float = 180.0
    first_wait: float = 1.0


@dataclass
class LanguageModelProposer:
    """Asks any endpoint that speaks the OpenAI chat protocol.

    Parameters
    ----------
    model : str
    exchanges : Exchanges
    base_url, api_key : str, optional
        By default what ``OPENAI_BASE_URL`` and ``OPENAI_API_KEY`` say. The URL may be http, have a port and a path; a
        local endpoint needs no key.
    temperature : float
    patience : Patience
    prices : tuple of two floats, optional
        Per million tokens read and written, in any currency; without them costs are not recorded.
    sleep : callable
        How to wait, for tests.

    Raises
    ------
    SolverUnavailable
        If the openai package is missing.
    UsageError
        If there is no model, or neither a key nor a URL.
    """

    model: str
    exchanges: Exchanges
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    temperature: float = 1.0
    patience: Patience = field(default_factory=Patience)
    prices: tuple[float, float] | None = None
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    name = "llm"

    def __post_init__(self) -> None:
        try:
            from openai import OpenAI
        except ImportError as error:
            raise SolverUnavailable("the proposer llm needs the openai package: pip install 'nco[llm]'") from error
        url = self.base_url or os.environ.get("OPENAI_BASE_URL")
        key = self.api_key or os.environ.get("OPENAI_API_KEY")
        if not self.model:
            raise UsageError("the proposer llm needs a model")
        if not url and not key:
            raise UsageError(
                "the proposer llm needs a key (OPENAI_API_KEY), or the base URL of an endpoint without one"
            )
        self._client = OpenAI(base_url=url, api_key=key or "none", max_retries=0, timeout=self.patience.timeout)

    def describe(self) -> dict[str, Any]:
        """Return the model and the temperature."""
        return {"name": self.name, "model": self.model, "temperature": self.temperature, "prompts": VERSION}

    def propose(self, request: Request, rng: np.random.Generator) -> Proposal:
        """Return the program of an answer, asked for unless it is already recorded.

        Raises
        ------
        ProposerError
            If the endpoint refuses the request, or gives no answer within the patience.
        """
        key = request_key(self.model, self.temperature, request)
        record = self.exchanges.get(key)
        if record is None:
            record = self._ask(key, request)
            self.exchanges.append(record)
        return _proposal(record)

    def _ask(self, key: str, request: Request) -> Record:
        """Return the record of an answer, after as many attempts as it takes and the patience allows."""
        asked = messages(request)
        errors: list[str] = []
        start = time.monotonic()
        wait = self.patience.first_wait
        while True:
            try:
                text, usage = self._attempt(asked)
                break
            except _Retry as error:
                errors.append(str(error))
                spent = time.monotonic() - start
                if len(errors) >= self.patience.attempts or spent + wait > self.patience.seconds:
                    raise ProposerError(
                        f"the endpoint gave no answer in {len(errors)} attempts and {spent:.0f} s; last: {errors[-1]}"
                    ) from error
                self.sleep(wait)
                wait = min(2 * wait, 60.0)
        return {
            "key": key,
            "request": {"model": self.model, "temperature": self.temperature, "messages": asked},
            "number": request.number,
            "answer": text,
            "usage": usage,
            "errors": errors,
        }

    def _attempt(self, asked: list[dict[str, str]]) -> tuple[str, dict[str, Any]]:
        """Return the text and usage of one answer; _Retry if another attempt may bring one."""
        import openai
        from openai.types.chat import ChatCompletion

        try:
            answer = self._client.chat.completions.create(
                model=self.model,
                messages=asked,  # type: ignore[arg-type]
                temperature=self.temperature,
            )
        except (openai.RateLimitError, openai.InternalServerError, openai.APIConnectionError) as error:
            raise _Retry(f"{type(error).__name__}: {error}") from error
        except openai.APIStatusError as error:
            raise ProposerError(f"the endpoint refuses the request ({error.status_code}): {error.message}") from error
        except (openai.APIResponseValidationError, ValueError) as error:
            raise _Retry(f"an answer that cannot be read: {error}") from error
        if not isinstance(answer, ChatCompletion) or not answer.choices or answer.choices[0].message is None:
            raise _Retry("an answer without a choice")
        usage: dict[str, Any] = {"prompt_tokens": None, "completion_tokens": None, "cost": None}
        if answer.usage is not None:
            read, written = answer.usage.prompt_tokens, answer.usage.completion_tokens
            usage.update(prompt_tokens=read, completion_tokens=written)
            if self.prices is not None:
                usage["cost"] = (read * self.prices[0] + written * self.prices[1]) / 1e6
        return answer.choices[0].message.content or "", usage


class ReplayProposer:
    """Gives the answers of a recorded search again; one that was not recorded is an error.

    Parameters
    ----------
    path : path-like
        The ``exchanges.jsonl`` of a search with the proposer llm.

    Raises
    ------
    UsageError
        If the file holds no exchanges, or those of several models.
    """

    name = "replay"

    def __init__(self, path: str | Path):
        path = Path(path)
        kinds = {(one["request"]["model"], one["request"]["temperature"]) for one in read_lines(path)}
        if len(kinds) != 1:
            raise UsageError(f"{path}: needs recorded exchanges with one model, not {len(kinds)}")
        [(self.model, self.temperature)] = kinds
        self._exchanges = Exchanges(path)

    def describe(self) -> dict[str, Any]:
        """Return the model that was recorded."""
        return {"name": self.name, "model": self.model, "temperature": self.temperature, "prompts": VERSION}

    def propose(self, request: Request, rng: np.random.Generator) -> Proposal:
        """Return the recorded program; ProposerError if there is none for the request."""
        record = self._exchanges.get(request_key(self.model, self.temperature, request))
        if record is None:
            raise ProposerError(
                f"{self._exchanges.path}: no answer is recorded for program {request.number} ({request.operator})"
            )
        return _proposal(record)


class _Retry(Exception):
    """An attempt that may go better the next time."""


def request_key(model: str, temperature: float, request: Request) -> str:
    """Return the hash that identifies a request and its answer."""
    content = [VERSION, model, temperature, request.number, messages(request, with_scores=False)]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _proposal(record: Record) -> Proposal:
    idea, program = parse_answer(record["answer"])
    return Proposal(idea, program, usage=record["usage"])
