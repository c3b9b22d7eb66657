"""nco.cli.main: exit codes, and one line for each error."""

import subprocess
import sys
from types import ModuleType

import pytest

from nco.cli import main
from nco.cli.main import COMMANDS
from nco.errors import UsageError


@pytest.fixture
def command(monkeypatch):
    """Return a function that makes ``nco test`` do something."""

    def install(run):
        module = ModuleType("test_command")
        module.add_parser = lambda subparsers: subparsers.add_parser("test").add_argument("--number", type=int)
        module.run = run
        monkeypatch.setitem(sys.modules, "test_command", module)
        monkeypatch.setitem(COMMANDS, "test", ("test_command", "a test"))

    return install


def fail(error):
    """Return a command that raises an error."""

    def run(args):
        raise error

    return run


def test_a_command_gets_its_arguments(command):
    """The exit code is the command's own."""
    command(lambda args: args.number)
    assert main(["test", "--number", "5"]) == 5


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (UsageError("no\nsuch thing"), 2, "nco: error: no such thing"),
        (FileNotFoundError(2, "No such file or directory", "x.tsp"), 2, "nco: error: x.tsp: No such file or directory"),
        (IsADirectoryError(21, "Is a directory", "folder"), 2, "nco: error: folder: Is a directory"),
        (KeyboardInterrupt(), 130, "nco: interrupted"),
        (KeyError("x"), 1, "nco: fault: KeyError: 'x' (add --debug for the traceback)"),
        (OSError(28, "No space left on device"), 1, "nco: fault: OSError: [Errno 28] No space left on device (add"),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(command, capsys, error, code, line):
    """Bad input gives 2, an interruption 130, and a fault 1; none shows a traceback."""
    command(fail(error))
    assert main(["test"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(line)
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("words", [["--debug", "test"], ["test", "--debug"]])
def test_debug_shows_the_traceback(command, capsys, words):
    """Before or after the command, --debug adds the traceback to the line."""
    command(fail(KeyError("x")))
    assert main(words) == 1
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "in run" in err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "the following arguments are required: COMMAND (see nco --help)"),
        (["frobnicate"], "invalid choice: 'frobnicate'"),
        (["test", "--number", "x"], "argument --number: invalid int value: 'x' (see nco test --help)"),
        (["test", "--colour"], "unrecognized arguments: --colour"),
    ],
)
def test_usage_errors(command, capsys, words, complaint):
    """A mistake on the command line gives 2 and one line."""
    command(lambda args: 0)
    assert main(words) == 2
    err = capsys.readouterr().err
    assert complaint in err
    assert len(err.splitlines()) == 1


def test_help_and_version(command, capsys):
    """Both end well, and the help lists all commands."""
    command(lambda args: 0)
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in COMMANDS)
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("nco ")


def test_a_command_whose_module_fails_is_a_fault(monkeypatch, capsys):
    """A module that cannot be imported is not passed over in silence."""
    monkeypatch.setitem(COMMANDS, "test", ("nco.cli.absent", "a test"))
    assert main(["test"]) == 1
    assert "No module named 'nco.cli.absent'" in capsys.readouterr().err


def test_a_closed_pipe_is_no_fault():
    """The reader of the output may leave early."""
    code = (
        "import sys, types; from nco.cli.main import COMMANDS, main\n"
        "module = sys.modules['m'] = types.ModuleType('m')\n"
        "module.add_parser = lambda subparsers: subparsers.add_parser('test')\n"
        "module.run = lambda args: [print('x' * 100) for _ in range(100_000)] and 0\n"
        "COMMANDS['test'] = ('m', '')\n"
        "sys.exit(main(['test']))"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 141


def test_the_list_of_commands_loads_no_heavy_module():
    """The help does not wait for torch."""
    code = "import sys; from nco.cli import main; main(['--help']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
