"""Thin entry point: the same as ``nco train``."""

import sys

from nco.cli import main

if __name__ == "__main__":
    sys.exit(main(["train", *sys.argv[1:]]))
