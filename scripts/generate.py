"""Thin entry point: the same as ``nco generate``."""

import sys

from nco.cli import main

if __name__ == "__main__":
    sys.exit(main(["generate", *sys.argv[1:]]))
