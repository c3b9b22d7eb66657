"""How many steps fit into a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nco.trainers import budget
from nco.trainers.cli import TrainingCLI


def build(recipe: Path, *options: str) -> TrainingCLI:
    """Return a run that is ready to start."""
    return TrainingCLI(["--config", str(recipe), *options])


def test_a_run_is_cut_to_the_steps_that_fit(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With half a second per batch and two per validation, what is left of 100 seconds is 8 times as many steps."""
    monkeypatch.setattr(budget.Stopwatch, "seconds_per_batch", lambda self, module: 0.5)
    monkeypatch.setattr(budget, "TIMED", 2)
    run = build(recipe, "--seconds", "100", "--trainer.max_steps", "100000")
    assert 120 < run.trainer.max_steps < 188
    assert run.trainer.max_steps % run.trainer.val_check_interval == 0
    assert run.trainer.max_steps // run.trainer.val_check_interval == budget.MOST_VALIDATIONS
    assert run.config.seconds is None
    assert run.config.trainer.max_steps == run.trainer.max_steps


def test_a_run_is_never_made_longer(recipe: Path) -> None:
    """The recipe's own number of steps is the most; the measuring leaves the model untouched."""
    run = build(recipe, "--seconds", "1000")
    assert run.trainer.max_steps == 12
    fresh = build(recipe)
    pairs = zip(run.model.parameters(), fresh.model.parameters(), strict=True)
    assert all(bool((one == other).all()) for one, other in pairs)


def test_the_stopwatch_times_batches_after_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten batches of one second warm up, fifty of a tenth are timed, then the training is stopped."""
    clock = [0.0]
    monkeypatch.setattr(budget, "_now", lambda module: clock[0])
    monkeypatch.setattr(budget.time, "perf_counter", lambda: 0.0)

    class Trainer:
        should_stop = False

    trainer: Any = Trainer()
    watch = budget.Stopwatch(1000)
    batches = 0
    while not trainer.should_stop:
        clock[0] += 1.0 if batches < budget.WARM_UP else 0.1
        watch.on_train_batch_end(trainer, None, None, None, batches)  # type: ignore[arg-type]
        batches += 1
    assert batches == budget.WARM_UP + budget.TIMED
    assert watch.seconds_per_batch(None) == pytest.approx(0.1)  # type: ignore[arg-type]


@pytest.mark.parametrize(("seconds", "text"), [(5, "00:00:00:05"), (3671, "00:01:01:11"), (90_000, "01:01:00:00")])
def test_durations_are_written_as_lightning_reads_them(seconds: int, text: str) -> None:
    """Days, hours, minutes and seconds."""
    assert budget._duration(seconds) == text
