"""The language-model path, end to end against a server on the loopback."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from chat_server import chat_server, completion
from synthetic_search import load_here, open_search

from nco.errors import UsageError
from nco.projection.evolution import SearchOptions
from nco.projection.jail import Limits
from nco.projection.language_model import Exchanges, LanguageModelProposer, Patience, ReplayProposer, request_key
from nco.projection.prompts import messages, parse_answer
from nco.projection.proposers import Failed, Individual, ProposerError, Request
from nco.projection.sandbox import Sandbox

pytest.importorskip("openai", reason="the openai package (extra llm) is not installed")

BOX = """{idea: centre the box and zoom}
```python
import torch

def project(points):
    group = points[:, 1:]
    low, high = group.amin(dim=1, keepdim=True), group.amax(dim=1, keepdim=True)
    side = (high - low).amax(dim=-1, keepdim=True)
    return (points - (low + high) / 2) / side.clamp(min=1e-9) + 0.5
```
"""
REQUEST = Request("i1", (), (), "tsp", 1000, 1)
RNG = np.random.default_rng(0)


def proposer_at(url: str, folder: Path, **options: object) -> LanguageModelProposer:
    """Return a proposer that does not really wait."""
    options.setdefault("sleep", lambda seconds: None)
    return LanguageModelProposer(
        "some-model",
        Exchanges(folder / "exchanges.jsonl"),
        url,
        "sk-secret",
        **options,  # type: ignore[arg-type]
    )


def parent(number: int, excess: float) -> Individual:
    """Return some scored program."""
    return Individual(
        number, f"idea {number}", f"def project(points):\n    return points + {number}\n", None, (), excess
    )


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the variables of whoever runs the tests."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL", "HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def test_answer_becomes_a_proposal(tmp_path: Path) -> None:
    """An answer's idea, program, tokens and price are returned; the path of the URL is kept and the key sent."""
    with chat_server(BOX) as chat:
        proposal = proposer_at(chat.url, tmp_path, prices=(2.0, 10.0)).propose(REQUEST, RNG)
    assert proposal.idea == "centre the box and zoom"
    assert proposal.source.startswith("def project(points):")
    assert proposal.usage == {"prompt_tokens": 700, "completion_tokens": 50, "cost": pytest.approx(0.0019)}
    assert chat.requests[0]["path"] == "/some/path/v1/chat/completions"
    assert chat.requests[0]["model"] == "some-model" and chat.requests[0]["messages"] == messages(REQUEST)
    assert chat.keys == ["Bearer sk-secret"]


def test_arguments_may_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without arguments, URL and key are those of the environment."""
    with chat_server(BOX) as chat:
        monkeypatch.setenv("OPENAI_BASE_URL", chat.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
        LanguageModelProposer("m", Exchanges(tmp_path / "e.jsonl")).propose(REQUEST, RNG)
    assert chat.keys == ["Bearer sk-other"]


@pytest.mark.parametrize(
    "fault", [429, 500, 503, b"no json", b"{}", json.dumps({**completion("x"), "choices": []}).encode()]
)
def test_faults_are_tried_again(tmp_path: Path, fault: int | bytes) -> None:
    """After refusals for load, server errors and malformed answers the request is sent again, and that is recorded."""
    waits: list[float] = []
    with chat_server(fault, fault, BOX) as chat:
        proposer = proposer_at(chat.url, tmp_path, sleep=waits.append)
        assert proposer.propose(REQUEST, RNG).source
    assert len(chat.requests) == 3
    assert waits == [1.0, 2.0]
    [record] = [json.loads(line) for line in (tmp_path / "exchanges.jsonl").read_text().splitlines()]
    assert len(record["errors"]) == 2


def test_silence_is_a_timeout(tmp_path: Path) -> None:
    """An endpoint that keeps silent is given up after the time for one attempt."""
    with chat_server(1.0, BOX) as chat:
        proposer = proposer_at(chat.url, tmp_path, patience=Patience(timeout=0.3))
        assert proposer.propose(REQUEST, RNG).source
    assert len(chat.requests) == 2


def test_attempts_are_limited(tmp_path: Path) -> None:
    """An endpoint that only fails ends in an error after so many attempts; nothing is recorded as an answer."""
    with chat_server(500) as chat:
        proposer = proposer_at(chat.url, tmp_path, patience=Patience(attempts=3))
        with pytest.raises(ProposerError, match="no answer in 3 attempts"):
            proposer.propose(REQUEST, RNG)
    assert len(chat.requests) == 3
    assert len(Exchanges(tmp_path / "exchanges.jsonl")) == 0


def test_time_is_limited(tmp_path: Path) -> None:
    """No attempt is begun whose wait would go beyond the total limit."""
    with chat_server(500) as chat:
        proposer = proposer_at(chat.url, tmp_path, patience=Patience(seconds=0.5))
        with pytest.raises(ProposerError, match="no answer in 1 attempts"):
            proposer.propose(REQUEST, RNG)
    assert len(chat.requests) == 1


@pytest.mark.parametrize("status", [400, 401, 404])
def test_refusals_are_final(tmp_path: Path, status: int) -> None:
    """A wrong key, model or request is not tried again, and the key is not told."""
    refused = pytest.raises(ProposerError, match=rf"refuses the request \({status}\)")
    with chat_server(status) as chat, refused as caught:
        proposer_at(chat.url, tmp_path).propose(REQUEST, RNG)
    assert len(chat.requests) == 1
    assert "sk-secret" not in str(caught.value)


def test_nothing_is_asked_twice(tmp_path: Path) -> None:
    """A recorded answer is found again by its request, by this proposer or by a replay, without the endpoint."""
    with chat_server(BOX) as chat:
        first = proposer_at(chat.url, tmp_path).propose(REQUEST, RNG)
        assert proposer_at(chat.url, tmp_path).propose(REQUEST, RNG) == first
    assert len(chat.requests) == 1
    assert ReplayProposer(tmp_path / "exchanges.jsonl").propose(REQUEST, RNG) == first


def test_missing_recording_is_an_error(tmp_path: Path) -> None:
    """A replay gives only what was recorded for the very request."""
    with chat_server(BOX) as chat:
        proposer_at(chat.url, tmp_path).propose(REQUEST, RNG)
    replay = ReplayProposer(tmp_path / "exchanges.jsonl")
    with pytest.raises(ProposerError, match="no answer is recorded for program 2"):
        replay.propose(Request("i1", (), (), "tsp", 1000, 2), RNG)
    with pytest.raises(UsageError, match="needs recorded exchanges"):
        ReplayProposer(tmp_path / "nothing.jsonl")


def test_keys_do_not_depend_on_digits_of_scores() -> None:
    """Scores are told, but a request is known by the rest of it."""
    one, other = (Request("m1", (parent(3, excess),), (), "tsp", 1000, 7) for excess in (-0.01, -0.011))
    assert messages(one) != messages(other)
    assert request_key("m", 1.0, one) == request_key("m", 1.0, other)
    assert request_key("m", 1.0, one) != request_key("m2", 1.0, one)


def test_prompt_tells_parents_and_failures() -> None:
    """A prompt holds the parents' programs, ideas and scores, and the last failures with their kinds."""
    failed = Failed("def project(points):\n    return open\n", "forbidden", "line 2: the name 'open'")
    request = Request("e2", (parent(3, -0.01), parent(5, 0.02)), (failed,), "cvrp", 5000, 9)
    system, user = (message["content"] for message in messages(request))
    assert "depot" in system and "5000 nodes" in system
    for text in ("return points + 3", "return points + 5", "-1.00 %", "idea 5", "forbidden: line 2", "in common"):
        assert text in user


@pytest.mark.parametrize(
    ("answer", "idea", "program"),
    [
        (
            "{idea: do it}\n```python\ndef project(p):\n    return p\n```\nDone.",
            "do it",
            "def project(p):\n    return p\n",
        ),
        (
            "{scale up}\n```\nimport torch\ndef project(p):\n    return p\n",
            "scale up",
            "def project(p):\n    return p\n",
        ),
        ("It shifts.\ndef project(p):\n    return p", "It shifts.", "def project(p):\n    return p\n"),
        (
            "{first one}\n```python\nx = 1\n```\n"
            "```python\ndef half(p):\n    return p\ndef project(p):\n    return half(p)\n```",
            "first one",
            "def half(p):\n    return p\ndef project(p):\n    return half(p)\n",
        ),
        ("I cannot help with that.", "I cannot help with that.", ""),
        ("```python\nprint(1)\n```", "```python print(1) ```", ""),
        ("", "", ""),
    ],
)
def test_programs_are_found_in_answers(answer: str, idea: str, program: str) -> None:
    """Fenced and bare programs are found with their helpers; an answer without one gives an empty program."""
    assert parse_answer(answer) == (idea, program)


def test_search_with_bad_answers_goes_on(tmp_path: Path) -> None:
    """A search lives through prose, hostile and broken programs, tells the model of them, and can be replayed."""
    hostile = "```python\nimport os\ndef project(points):\n    os.system('true')\n    return points\n```"
    slow = (
        "```python\ndef project(points):\n    n = 9\n    for i in range(64):\n        n = n * n\n    return points\n```"
    )
    options = SearchOptions(budget=2, population=2, stages=(2,), validation=2, test=2)
    with chat_server("no code", hostile, slow, BOX) as chat, Sandbox(Limits(seconds=1.0)) as sandbox:
        proposer = proposer_at(chat.url, tmp_path)
        outcome = open_search(tmp_path / "live", proposer, options=options, load=sandbox.open).run()
        replay = ReplayProposer(tmp_path / "exchanges.jsonl")
        again = open_search(tmp_path / "again", replay, options=options, load=sandbox.open).run()
    assert outcome.failures == {"syntax": 1, "forbidden": 1, "timeout": 1}
    assert outcome.usage["completion_tokens"] == 200
    assert "forbidden: line 1" in chat.requests[2]["messages"][1]["content"]
    assert "sk-secret" not in "".join(path.read_text() for path in tmp_path.rglob("*.json*"))
    assert again.winner == outcome.winner and again.failures == outcome.failures


def test_search_stops_and_resumes_where_the_endpoint_failed(tmp_path: Path) -> None:
    """When the endpoint gives up, the search ends with its error; given again, it goes on with what is recorded."""
    other = BOX.replace("+ 0.5", "+ 0.45")
    options = SearchOptions(budget=3, population=2, stages=(2,), validation=2, test=2)
    with chat_server(BOX, 401, other) as chat:
        proposer = proposer_at(chat.url, tmp_path)
        with pytest.raises(ProposerError):
            open_search(tmp_path / "s", proposer, options=options, load=load_here).run()
        outcome = open_search(tmp_path / "s", proposer, options=options, load=load_here).run()
    assert len(chat.requests) == 3
    assert outcome.scored == 3


def test_proposer_needs_a_model_and_an_endpoint(tmp_path: Path) -> None:
    """Without a model, or with neither a key nor a URL, nothing is asked at all."""
    with pytest.raises(UsageError, match="needs a model"):
        LanguageModelProposer("", Exchanges(tmp_path / "e"), "http://127.0.0.1:1/v1")
    with pytest.raises(UsageError, match="needs a key"):
        LanguageModelProposer("m", Exchanges(tmp_path / "e"))
