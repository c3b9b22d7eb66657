"""Thin entry point: the same as ``nco project``."""

import sys

from nco.cli import main

if __name__ == "__main__":
    sys.exit(main(["project", *sys.argv[1:]]))
