"""The ``nco`` command: finds the subcommand, runs it, and turns errors into lines and exit codes."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from nco import __version__
from nco.errors import NcoError, UsageError

# Each module has ``add_parser(subparsers)`` and ``run(args) -> exit code``. It is imported only for its own command,
# so that a list of commands does not wait for torch.
COMMANDS = {
    "solve": ("nco.cli.solve", "solve instances of a file"),
    "evaluate": ("nco.cli.evaluate", "compare solvers on a suite or a data set"),
    "generate": ("nco.cli.generate", "write a seeded set of random instances"),
    "label": ("nco.cli.label", "label instances with a solver, for training"),
    "train": ("nco.cli.train", "train a model from a recipe"),
    "project": ("nco.cli.project", "search a projection for large instances"),
    "convert": ("nco.cli.convert", "convert data files and checkpoints"),
    "models": ("nco.cli.models", "list the pretrained models"),
    "info": ("nco.cli.info", "show versions, devices and the solvers found"),
}

DONE, FAULT, BAD_INPUT, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 130, 141
_WRONG_PATHS = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError)


class _Parser(argparse.ArgumentParser):
    """A parser whose complaint is one line, like that of any other bad input."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; those of the process by default.

    Returns
    -------
    int
        0 done; 2 bad input or usage, with one line on stderr; 130 interrupted; 1 any other fault, with one line on
        stderr, or with its traceback under ``--debug``.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    try:
        args = _parse(words)
        if debug:
            logging.basicConfig(level=logging.DEBUG, format="%(name)s: %(message)s")
        code = importlib.import_module(COMMANDS[args.command][0]).run(args)
        sys.stdout.flush()
        return code
    except SystemExit as stop:  # argparse after --help, Lightning after a bad recipe
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
            return FAULT
        return DONE if stop.code is None else stop.code
    except BrokenPipeError:
        # The reader of our output is gone (nco ... | head). Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except BaseException as error:
        if debug:
            traceback.print_exc()
        code, line = _verdict(error)
        print("nco:", *line.split(), file=sys.stderr)
        return code


def _verdict(error: BaseException) -> tuple[int, str]:
    """Return the exit code and the line for an error."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, "interrupted"
    if isinstance(error, NcoError):
        return BAD_INPUT, f"error: {error}"
    if isinstance(error, _WRONG_PATHS) and error.filename is not None:
        return BAD_INPUT, f"error: {error.filename}: {error.strerror}"
    return FAULT, f"fault: {type(error).__name__}: {error} (add --debug for the traceback)"


def _parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments with the full parser of the command that they name, and mere entries for all others."""
    parser = _Parser(prog="nco", description="Neural combinatorial optimisation of vehicle routing.")
    parser.add_argument("--version", action="version", version=f"nco {__version__}")
    _add_debug(parser)
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    named = next((word for word in words if not word.startswith("-")), None)
    for command, (module, line) in COMMANDS.items():
        if command == named:
            importlib.import_module(module).add_parser(subparsers)
            _add_debug(subparsers.choices[command])
        else:
            subparsers.add_parser(command, help=line)
    return parser.parse_args(words)


def _add_debug(parser: argparse.ArgumentParser) -> None:
    # Before or after the command; suppressed, so that the command's own default does not undo what came before it.
    parser.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help="show tracebacks")
