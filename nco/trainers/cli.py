"""Lightning's command line, with what every run of nco has: checkpoints, logs, progress, and a way to resume.

A run lives in the folder ``trainer.default_root_dir``: ``best.ckpt``, ``last.ckpt``, ``metrics.csv``, ``tensorboard/``
and ``recipe.yaml``, which holds all options and is itself a recipe.
"""

from __future__ import annotations

import argparse
import copy
import os
import re
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from jsonargparse.typing import PositiveFloat, PositiveInt
from pytorch_lightning.cli import LightningArgumentParser, LightningCLI, SaveConfigCallback
from pytorch_lightning.loggers import Logger, TensorBoardLogger
from pytorch_lightning.utilities.exceptions import MisconfigurationException

from nco.errors import NcoError, UsageError
from nco.models.weights import check_tensors, read_checkpoint
from nco.trainers.budget import fit_into
from nco.trainers.checkpoints import BEST, LAST, RunCheckpoint, WholeFileIO
from nco.trainers.csv_log import CSVLog
from nco.trainers.progress import TrainingProgress
from nco.trainers.recipes import find_recipe

RECIPE = "recipe.yaml"
# Lightning warns of its own use of PyTorch.
OF_LIGHTNING = ".*isinstance.treespec, LeafSpec."
TRAINER_DEFAULTS = {"enable_progress_bar": False, "enable_model_summary": False, "num_sanity_val_steps": 0}


class SaveRecipe(SaveConfigCallback):
    """Saves all options of a run in its folder, whole or not at all."""

    def save_config(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Write ``recipe.yaml``."""
        path = Path(trainer.default_root_dir) / RECIPE
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(self.parser.dump(self.config, skip_none=False))
        os.replace(partial, path)


class TrainingCLI(LightningCLI):
    """Builds model, data and trainer from a recipe and options that override it.

    Attributes
    ----------
    root : Path
        The run's folder.
    resume : Path or None
        The checkpoint to go on from.
    """

    def __init__(self, args: list[str]):
        self._started = time.perf_counter()
        self.root = Path()
        self.resume: Path | None = None
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*LightningCLI's args parameter.*")
            warnings.filterwarnings("ignore", message=OF_LIGHTNING)
            super().__init__(
                save_config_callback=SaveRecipe,
                save_config_kwargs={"save_to_log_dir": False},
                trainer_defaults=TRAINER_DEFAULTS,
                parser_kwargs={"prog": "nco train RECIPE", "description": __doc__, "exit_on_error": False},
                args=args,
                run=False,
                auto_configure_optimizers=False,
            )

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add what Lightning has no option for."""
        parser.add_argument(
            "--ckpt_path",
            type=str | None,
            help="checkpoint to resume from; 'last' is the run's own, from which the same command goes on after a kill",
        )
        parser.add_argument("--threads", type=PositiveInt | None, help="threads of PyTorch on a CPU")
        parser.add_argument(
            "--seconds",
            type=PositiveFloat | None,
            help="shorten the run, its schedule included, to the steps that fit, as measured at its start",
        )
        parser.add_lightning_class_args(RunCheckpoint, "checkpoint")
        parser.set_defaults(
            {
                "checkpoint.filename": BEST.removesuffix(".ckpt"),
                "checkpoint.monitor": "val_gap_reconstruction",
                "checkpoint.save_last": True,
                "checkpoint.save_on_train_epoch_end": False,
                "checkpoint.enable_version_counter": False,
            }
        )
        parser.link_arguments("trainer.default_root_dir", "checkpoint.dirpath")

    def before_instantiate_classes(self) -> None:
        """Find the run's folder and the checkpoint to resume from."""
        if self.config.trainer.default_root_dir is None:
            raise UsageError("trainer.default_root_dir is not set: it is the run's folder")
        self.root = Path(self.config.trainer.default_root_dir)
        self.resume = _checkpoint(self.config.ckpt_path, self.root)
        if self.resume is not None and self.config.seconds is not None:
            raise UsageError(f"a run keeps its number of steps: resume it with {self.root / RECIPE}, without --seconds")
        # The saved recipe says how to run, not from where this once went on.
        self.config.ckpt_path = None
        if self.config.threads is not None:
            torch.set_num_threads(self.config.threads)

    def instantiate_trainer(self, **kwargs: Any) -> pl.Trainer:
        """Add logs and progress; with ``--seconds``, first measure how many steps fit."""
        options = self.config_init.trainer
        if self.config.seconds is not None:
            left = self.config.seconds - (time.perf_counter() - self._started)
            found = fit_into(left, copy.deepcopy(self.model), self.datamodule, dict(options))
            self.config.seconds = None
            for name, value in found.items():
                self.config.trainer[name] = options[name] = value
        if options.logger in (None, True):
            kwargs["logger"] = run_loggers(self.root)
        if options.plugins is None:
            kwargs["plugins"] = [WholeFileIO()]
        kwargs["callbacks"] = [*(options.callbacks or []), TrainingProgress()]
        return super().instantiate_trainer(**kwargs)

    def fit(self) -> None:
        """Train, from the start or from where the checkpoint to resume stopped.

        Raises
        ------
        CheckpointError
            If that checkpoint is damaged or of another network.
        """
        if self.resume is not None:
            tensors = read_checkpoint(self.resume).get("state_dict", {})
            check_tensors(self.model, tensors, self.resume)
        with warnings.catch_warnings():
            # A resumed run has a folder that is not empty, and its stream of batches goes on where it stopped.
            warnings.filterwarnings("ignore", message="Checkpoint directory .* exists and is not empty")
            warnings.filterwarnings("ignore", message="You're resuming from a checkpoint that ended before the epoch")
            warnings.filterwarnings("ignore", message=OF_LIGHTNING)
            self.trainer.fit(self.model, self.datamodule, ckpt_path=self.resume, weights_only=True)


def run_loggers(root: Path) -> list[Logger]:
    """Return a CSV log and, where TensorBoard is installed, its log."""
    loggers: list[Logger] = [CSVLog(root)]
    if find_spec("tensorboard") is None:
        print("TensorBoard is not installed: the log is metrics.csv alone", file=sys.stderr)
    else:
        loggers.append(TensorBoardLogger(root, name="", version="tensorboard"))
    return loggers


def _checkpoint(name: str | None, root: Path) -> Path | None:
    """Return the checkpoint that an option names."""
    last = root / LAST
    if name is None:
        if last.is_file():
            raise UsageError(f"{root} holds a run: --ckpt_path last goes on with it; a new one needs another folder")
        return None
    if name == "last":
        if not last.is_file():
            print(f"no {last} yet: a new run", file=sys.stderr)
            return None
        return last
    if not Path(name).is_file():
        raise UsageError(f"no checkpoint at {name}")
    return Path(name)


# What jsonargparse tells of an option that may be one of several types, besides what is wrong with it.
_NOISE = re.compile(
    r"\s*(Does not validate against|Subtypes:|Errors:|- Expected a <class 'NoneType'>|"
    r"Given value type:|Given value: (Namespace|NestedArg))"
)


@contextmanager
def _usage_errors(*kinds: type[Exception]) -> Iterator[None]:
    """Turn the complaints of jsonargparse and Lightning about options into ours."""
    caught: tuple[type[Exception], ...] = (argparse.ArgumentError, MisconfigurationException, *kinds)
    try:
        yield
    except NcoError:
        raise
    except caught as error:
        told = [line.strip(" -") for line in str(error).splitlines() if not _NOISE.match(line)]
        raise UsageError(" ".join(told)) from error


def train(recipe: str, options: Sequence[str] = ()) -> TrainingCLI:
    """Train from a recipe.

    Parameters
    ----------
    recipe : str
        A file, or a name on the shelf ``trainers/``.
    options : sequence of str
        Options in Lightning's form that override the recipe, such as ``--trainer.max_steps 100``.

    Returns
    -------
    TrainingCLI
        With the trained ``model``, the ``datamodule`` and the ``trainer``.

    Raises
    ------
    UsageError
        If the recipe or an option is wrong, or labels are missing.
    CheckpointError
        If the checkpoint to resume from is damaged or of another network.
    """
    path = find_recipe(recipe)
    with _usage_errors(TypeError, ValueError):
        cli = TrainingCLI(["--config", str(path), *options])
    with _usage_errors():
        cli.fit()
    return cli
