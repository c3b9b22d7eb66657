"""``scripts/train_on_gpu.sh``: the commands that it gives, and a few steps of it on a CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nco
from nco.models.l2c_insert.pretrained import load_insertion

SCRIPT = nco.shelf("scripts") / "train_on_gpu.sh"
# Stands for Python: says what it was asked for, and leaves a checkpoint where a training would.
RECORDER = """#!/bin/sh
echo "$NCO_LABELS $*"
for word in "$@"; do
    if [ "$last" = --trainer.default_root_dir ]; then mkdir -p "$word" && touch "$word/last.ckpt"; fi
    last=$word
done
"""


def run(out: Path, *arguments: str, **variables: str) -> list[str]:
    """Run the script and return its output."""
    command = [str(SCRIPT), str(out), *arguments]
    environment = {**os.environ, **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (out / "train.log").read_text().endswith(done.stdout)
    return done.stdout.splitlines()


def test_the_script_trains_and_converts_both_and_goes_on_after_a_stop(tmp_path: Path) -> None:
    """TSP, then CVRP, each within its time; given again, the saved recipe is resumed."""
    recorder = tmp_path / "python"
    recorder.write_text(RECORDER)
    recorder.chmod(0o755)
    out, recipes = tmp_path / "out", nco.shelf("trainers")
    first = run(out, "labels", "--threads", "2", PYTHON=str(recorder), SECONDS_EACH="100")
    second = run(out, "labels", PYTHON=str(recorder))
    for number, name in enumerate(("l2c-insert-tsp", "l2c-insert-cvrp")):
        folder = out / "runs" / name
        train, convert = first[2 * number : 2 * number + 2]
        assert train == (
            f"labels -m nco train {recipes / name}.yaml --seconds 100 --trainer.accelerator gpu --threads 2 "
            f"--trainer.default_root_dir {folder}"
        )
        assert convert == f"labels -m nco convert --weights {folder / 'last.ckpt'} {out / name}"
        assert second[2 * number] == f"labels -m nco train {folder / 'recipe.yaml'} --ckpt_path last"


def test_the_script_without_a_folder_explains_itself() -> None:
    """It ends with exit code 2."""
    done = subprocess.run([str(SCRIPT)], capture_output=True, text=True)
    assert done.returncode == 2
    assert "OUTDIR" in done.stderr


def test_the_script_makes_weights_in_a_few_steps_on_a_cpu(tiny_labels: Path, tmp_path: Path) -> None:
    """The paper-size recipe, with a small network and labels of ours in place of the large ones."""
    options = (
        "--trainer.accelerator cpu --trainer.max_steps 3 --model.dim 16 --model.hidden 16 --model.decoder_layers 1 "
        f"--data.labels [{tiny_labels}] --data.batch_size 8 --data.pool_instances 4 --data.hole_sizes [2,5] "
        "--data.validation 4 --data.validation_instances 2 --model.validation_iterations 1 --threads 1"
    )
    out = tmp_path / "out"
    lines = run(out, str(tiny_labels.parent), *options.split(), PYTHON=sys.executable, PROBLEMS="tsp")
    assert lines[-1].startswith(f"{out / 'l2c-insert-tsp'}: l2c-insert for the TSP")
    assert load_insertion(out / "l2c-insert-tsp", "tsp").network.options["dim"] == 16
    assert (out / "runs" / "l2c-insert-tsp" / "metrics.csv").is_file()
