# Each target creates .venv and installs what it needs on first use, and nothing twice.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Small factorizations gain nothing from BLAS threads and lose when these compete for cores.
export OPENBLAS_NUM_THREADS ?= 1

# Byte code is written on first import: pip would compile thousands of files that nobody imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all versions lint bench docs mutate stress soak clean

demo: $(VENV)/.demo
	$(BIN)/ngem demo --out out/demo

# One thread of XLA per test process: there are as many of those as cores.
test: export NPROC ?= 1
test: $(VENV)/.test
	$(BIN)/python -m pytest -n auto --dist worksteal

# The slow rest as well.
test-all: export NPROC ?= 1
test-all: $(VENV)/.test
	$(BIN)/python -m pytest -n auto --dist worksteal -m ""

# The core of the suite with each interpreter at hand, then with the lowest versions allowed.
versions:
	$(PYTHON) .ci/versions.py
	$(PYTHON) .ci/versions.py 3.11 --lowest

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

bench: $(VENV)/.bench
	$(BIN)/ngem bench --out out/bench.json

# Which mutations of the mathematics no test notices. Hours; --minutes and --modules do a part.
mutate: $(VENV)/.test
	$(BIN)/python benchmarks/mutate.py --count 300 --out out/mutations.json

# Random fits, bad inputs, damaged files, kills, full disks, threads: minutes, or half an hour and more.
stress: $(VENV)/.test
	$(BIN)/python benchmarks/stress --size stress --out out/stress.json

soak: $(VENV)/.test
	$(BIN)/python benchmarks/stress --size soak --out out/soak.json

docs: $(VENV)/.docs
	$(BIN)/mkdocs build --strict

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# One stamp per extra: .venv/.demo, .venv/.test and so on.
$(VENV)/.%: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e ".[$*]"
	touch $@

clean:
	rm -rf $(VENV) out build dist
