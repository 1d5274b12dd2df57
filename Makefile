# make demo    set everything up and rebuild a small paper, end to end, in minutes
# make test    the tests
# make test-slow   minutes of CPU more: ARC data sets at full size
# make slurm-test  builds and faults on a real two-node Slurm on this machine (root, Debian)
# make kill-test   kills each engine fifty times at random moments
# make check   lint, format, types
.PHONY: demo test test-slow slurm-test kill-test golden-keys check format clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Two single-threaded processes use two cores best; more threads only spin.
export OMP_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1

demo: $(INSTALLED)
	snakemake --cores all --quiet rules host reason -- all
	@echo "The report: $(CURDIR)/reports/demo/index.html"

test: $(INSTALLED)
	python -m pytest -n 2

test-slow: $(INSTALLED)
	python -m pytest -m slow

slurm-test: $(INSTALLED)
	DEEPLOOP_TEST_SLURM=required python -m pytest tests/slurm -m "slow or not slow"

kill-test: $(INSTALLED)
	DEEPLOOP_TEST_KILLS=50 python -m pytest tests/workflow/test_accidents.py -k killed_at_random

# After an edit that is meant to change what the paper's runs are.
golden-keys: $(INSTALLED)
	python -m tests.test_plan

check: $(INSTALLED)
	ruff check .
	ruff format --check .
	snakefmt --check Snakefile workflow
	snakemake --lint
	mypy
	deeploop dvc --check

format: $(INSTALLED)
	ruff check --fix .
	ruff format .
	snakefmt Snakefile workflow

$(INSTALLED): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("DeepLoop needs Python 3.11 or newer; name one: make PYTHON=python3.12 ...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --disable-pip-version-check -r requirements.txt
	$(BIN)/pip install --disable-pip-version-check --no-deps --editable .
	@touch $@

clean:
	rm -rf .snakemake .pytest_cache .ruff_cache .mypy_cache
