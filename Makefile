# `make demo` and `make test` work on a fresh machine: each makes .venv if needed and installs the tested versions.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed

.PHONY: demo test lint clean

demo: $(STAMP)
	$(BIN)/python scripts/demo.py

test: $(STAMP) lint
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy nco
	$(BIN)/lint-imports

# PyTorch comes first and alone, so that nothing else can pull in another build of it.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[baselines,ortools,dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info runs out
