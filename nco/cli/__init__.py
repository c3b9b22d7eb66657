"""The ``nco`` command: one module per subcommand, imported when it is asked for."""

from nco.cli.main import main

__all__ = ["main"]
