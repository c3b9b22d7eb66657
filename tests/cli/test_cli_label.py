from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nco.cli import label
from nco.data import read_set
from nco.data.sources import GeneratorSource
from nco.errors import UsageError
from nco.labelling import label as run_label

# Uniform TSPs in shards of 10, by a solver that needs about a millisecond for each.
SOURCE = GeneratorSource("uniform", "tsp", 20, seed=3, count=400)
SOLVER = "random-insertion"
WORDS = f"--generate uniform --problem tsp --size 20 --generator-seed 3 --solver {SOLVER} --shard-size 10"
PROGRAM = """
import argparse, sys
from nco.cli import label
parser = argparse.ArgumentParser()
label.add_parser(parser.add_subparsers())
sys.exit(label.run(parser.parse_args(sys.argv[1:])))
"""


def parsed(words: str) -> argparse.Namespace:
    """Parse some words as those of ``nco label``."""
    parser = argparse.ArgumentParser()
    label.add_parser(parser.add_subparsers())
    return parser.parse_args(["label", *words.split()])


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of all files of a folder but the unfinished ones."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".tmp"}


def children(process: int) -> list[int]:
    """Return the children of a process, as far as the system tells."""
    if not Path("/proc/self/task").is_dir():
        return []
    return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def is_alive(process: int) -> bool:
    """Tell whether a process is there and has not merely been left unburied."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_killed_command_resumes_to_the_same_files(tmp_path: Path) -> None:
    """Killed with two worker processes and resumed in a thread, the labels are those of an unbroken run.

    The workers of the killed command end by themselves.
    """
    broken = tmp_path / "broken"
    words = ["label", *WORDS.split(), "--count", "400", "--workers", "2", "--out", str(broken)]
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, *words])
    while len(list(broken.glob("*.npz"))) < 3 and process.poll() is None:
        time.sleep(0.002)
    workers = children(process.pid)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert 3 <= len(list(broken.glob("*.npz"))) < 40
    with ThreadPoolExecutor(1) as pool:
        for folder in (broken, tmp_path / "unbroken"):
            run_label(SOURCE, SOLVER, {}, folder, seed=1, shard_size=10, executor=pool)
    assert contents(broken) == contents(tmp_path / "unbroken")
    assert not any(is_alive(worker) for worker in workers)


def test_set_is_labelled_and_joined(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The command labels in a worker process, says so, and joins the shards into a set with the solver's costs."""
    assert label.run(parsed(f"{WORDS} --count 12 --out {tmp_path}/labels --join {tmp_path}/set.npz")) == 0
    out, err = capfd.readouterr()
    assert out == f"{tmp_path}/labels: 12 labels by {SOLVER}\n"
    assert "label: 12/12" in err
    references = [instance.reference for instance in read_set(tmp_path / "set.npz")]
    assert [reference.kind for reference in references if reference is not None] == 12 * [SOLVER]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("--solver lkh --out labels", "either a set"),
        ("set.npz --generate uniform --solver lkh --out labels", "either a set"),
        ("set.npz --size 20 --solver lkh --out labels", "--size belongs to --generate"),
        ("--generate uniform --problem tsp --size 20 --count 5 --solver lkh --out labels", "needs --generator-seed"),
    ],
)
def test_ambiguous_sources_are_refused(words: str, reason: str) -> None:
    """The instances come from a set or a generator, completely described."""
    with pytest.raises(UsageError, match=reason):
        label.run(parsed(words))
