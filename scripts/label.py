"""Thin entry point: the same as ``nco label``."""

import sys

from nco.cli import main

if __name__ == "__main__":
    sys.exit(main(["label", *sys.argv[1:]]))
