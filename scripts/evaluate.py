"""Thin entry point: the same as ``nco evaluate``."""

import sys

from nco.cli import main

if __name__ == "__main__":
    sys.exit(main(["evaluate", *sys.argv[1:]]))
