# Each target makes .venv when it is missing or a pyproject.toml has changed. Needs Python >= 3.11, make and pip.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
WARM := $(VENV)/.warm
CLASSES := $(VENV)/spark.jsa
# Two workers: the machines this must be comfortable on have two cores.
JOBS ?= 2
# Python keeps the modules it has compiled, whatever it is told: every process of a flow on Spark reads them anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo figures test ready check soak soak-crowd soak-spark chaos powercuts powercuts-local format clean

demo: $(RUN)
	$(BIN)/penstock demo

# The papers' figures, into figures/; ARGS=--quick for a first look.
figures: $(DEV)
	$(BIN)/penstock figure all $(ARGS)

# A worker that is done takes over half of what another still has: tests on Spark are long, and all in one place.
test: ready
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(ARGS)

check: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# A long campaign against the oracle; COMPARISONS says how long.
COMPARISONS ?= 1000000
soak: $(WARM)
	$(BIN)/python -m tests.oracle.soak --comparisons $(COMPARISONS) --jobs $(JOBS) $(ARGS)

# Crowds of queries that come and go, each against itself alone; SECONDS says how long.
SECONDS ?= 600
soak-crowd: $(WARM)
	$(BIN)/python -m tests.equivalence.crowd --seconds $(SECONDS) $(ARGS)

# A flow on Spark under a steady load: memory, state, disk and latency stay as they are; MINUTES says how long.
MINUTES ?= 30
soak-spark: $(WARM)
	$(BIN)/python -m tests.spark.soak --minutes $(MINUTES) $(ARGS)

# Kill worker processes, Python workers, and Spark with its driver, again and again; KILLS says how often.
# With ARGS='--folder DIR' the same command goes on where it was interrupted, and several at once share the rounds.
KILLS ?= 1000
chaos: $(WARM)
	$(BIN)/python -m tests.chaos.campaign --kills $(KILLS) $(ARGS)

# Cut the power under a flow on Spark whose disk forgets what was not synced; CUTS says how often. Needs root and FUSE.
CUTS ?= 2000
powercuts: $(WARM)
	$(BIN)/python -m tests.powercut.campaign --cuts $(CUTS) $(ARGS)

# The same under the driver, two cells and a file sink in one process, some hundred cuts a minute: no root, FUSE or Java.
powercuts-local: $(WARM)
	$(BIN)/python -m tests.powercut.local_campaign --cuts $(CUTS) $(ARGS)

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Penstock needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

# Two distributions from one repository: the engine, and what it is measured by.
$(RUN): $(BIN)/python pyproject.toml lab/pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[spark]' --editable ./lab
	@$(BIN)/python -m scripts.java
	@touch $@

$(DEV): $(BIN)/python pyproject.toml lab/pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[dev]' --editable ./lab
	@$(BIN)/python -m scripts.java
	@touch $@ $(RUN)

# What all tests need and one process makes best: two workers that compile the same kernel need twice the time.
ready: $(WARM) $(CLASSES)

$(WARM): $(DEV) $(shell find src -name '*.py')
	@$(BIN)/penstock warm
	@touch $@

# Spark's Java classes, loaded and checked once for every Java that tests start; tests run without them too, but longer.
$(CLASSES): $(DEV) tests/spark/classes.py
	@$(BIN)/python -m tests.spark.classes $@ 2>/dev/null || true

clean:
	rm -rf $(VENV) build dist out figures .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
