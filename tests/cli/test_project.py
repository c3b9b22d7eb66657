"""``nco project``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from nco.cli import main
from nco.models.lehd.network import LehdNetwork
from nco.models.lehd.pretrained import TrainedLehd
from nco.projection.program import compile_program
from nco.projection.registry import read_registry

WORDS = (
    "--problem tsp --size 40 --budget 5 --population 2 --stages 2,4 --validation 2 --test 2 --finalists 2 --threads 1"
)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a tiny network that knows nothing."""
    folder = tmp_path_factory.mktemp("weights") / "tiny"
    with torch.random.fork_rng():
        torch.manual_seed(3)
        network = LehdNetwork("tsp", dim=16, heads=2, head_dim=8, hidden=32, decoder_layers=1)
    TrainedLehd(network.eval(), 8, "tiny").save(folder)
    return folder


def test_killed_search_ends_like_an_unbroken_one(weights: Path, tmp_path: Path) -> None:
    """A search that is killed and given again ends with the same journal and report, and the winner can be used."""
    words = ["project", *WORDS.split(), "--weights", str(weights)]
    assert main([*words, "--out", str(tmp_path / "whole")]) == 0
    killed = [*words, "--out", str(tmp_path / "killed")]
    journal = tmp_path / "killed" / "journal.jsonl"
    process = subprocess.Popen([sys.executable, "-m", "nco", *killed], stderr=subprocess.DEVNULL)
    while process.poll() is None and not (journal.exists() and journal.read_bytes().count(b"\n") >= 2):
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert main(killed) == 0
    for name in ("journal.jsonl", "report.json", "winner.py", "search.json"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    report = json.loads((tmp_path / "whole" / "report.json").read_text())
    assert compile_program((tmp_path / "whole" / "winner.py").read_text())
    if report["winner"]:
        assert read_registry(tmp_path / "whole" / "projections.yaml").name_for("tsp", 40) == "tsp-40-found"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--stages 2,x", "--stages must be numbers"),
        ("--stages 4,2", "ascending"),
        ("--budget 0", "at least 1"),
        ("--model m", "--model belongs to --proposer llm"),
        ("--proposer replay", "belong together"),
        ("--proposer llm --model m", "needs a key"),
        ("--distribution nowhere", "no generator named"),
        ("--weights nowhere", "nowhere"),
    ],
)
def test_bad_usage_is_one_line(
    words: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arguments that make no sense end with exit code 2 and one line, before anything is written."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "out"
    code = main(["project", "--problem", "tsp", "--size", "20", "--out", str(folder), *words.split()])
    [line] = capsys.readouterr().err.splitlines()
    assert code == 2 and complaint in line
    assert not folder.exists()
