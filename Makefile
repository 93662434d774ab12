# Each target makes .venv when it is missing or pyproject.toml has changed. Needs Python >= 3.11, make and pip.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
# Two workers: the machines this must be comfortable on have two cores.
JOBS ?= 2

.PHONY: demo figures test check soak soak-crowd soak-spark chaos format clean

demo: $(RUN)
	$(BIN)/penstock demo

# The papers' figures, into figures/; ARGS=--quick for a first look.
figures: $(DEV)
	$(BIN)/penstock figure all $(ARGS)

# Kernels are compiled once, before the workers start: two workers compiling the same kernel cost twice the time.
WARM = @$(BIN)/python -m penstock.surfaces.warm
# A worker that is done takes over half of what another still has: tests on Spark are long, and all in one place.
test: $(DEV)
	$(WARM)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(ARGS)

check: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# A long campaign against the oracle; COMPARISONS says how long.
COMPARISONS ?= 1000000
soak: $(DEV)
	$(WARM)
	$(BIN)/python -m tests.oracle.soak --comparisons $(COMPARISONS) --jobs $(JOBS) $(ARGS)

# Crowds of queries that come and go, each against itself alone; SECONDS says how long.
SECONDS ?= 600
soak-crowd: $(DEV)
	$(WARM)
	$(BIN)/python -m tests.equivalence.crowd --seconds $(SECONDS) $(ARGS)

# A flow on Spark under a steady load: memory, state, disk and latency stay as they are; MINUTES says how long.
MINUTES ?= 30
soak-spark: $(DEV)
	$(WARM)
	$(BIN)/python -m tests.spark.soak --minutes $(MINUTES) $(ARGS)

# Kill hosts, Python workers, and Spark with its driver, again and again; KILLS says how often.
KILLS ?= 500
chaos: $(DEV)
	$(WARM)
	$(BIN)/python -m tests.chaos.campaign --kills $(KILLS) $(ARGS)

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Penstock needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

$(RUN): $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[spark]'
	@touch $@

$(DEV): $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@ $(RUN)

clean:
	rm -rf $(VENV) build dist out figures .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
