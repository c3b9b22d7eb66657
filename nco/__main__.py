"""Lets ``python -m nco`` stand for the ``nco`` command."""

import sys

from nco.cli import main

sys.exit(main())
