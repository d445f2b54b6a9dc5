# Every target installs what it needs into .venv; nothing else on the machine is touched.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
SEMCAST := $(BIN)/semcast
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
SEEDS  ?= 2000
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt

.DEFAULT_GOAL := help
.PHONY: help setup demo test check swarm soak bench figures clean

help:  ## what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

$(VENV)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if v >= (3, 11) else f"semcast needs Python 3.11 or newer, {v[0]}.{v[1]} found: make PYTHON=/path/to/python3.11")'
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/lab: $(VENV)/python pyproject.toml constraints.txt
	@echo "installing semcast[lab] into $(VENV)" >&2
	@$(PIP) install -e '.[lab]'
	@touch $@

$(VENV)/dev: $(VENV)/lab
	@echo "installing semcast[dev] into $(VENV)" >&2
	@$(PIP) install -e '.[dev]'
	@touch $@

$(VENV)/spark: $(VENV)/dev
	@$(BIN)/python -c 'from semcast.pipeline.java import ensure_java; ensure_java()' 2>/dev/null || { \
	  echo "installing semcast[java] into $(VENV): there is no Java on this machine" >&2; \
	  $(PIP) install -e '.[java]'; }
	@touch $@

$(VENV)/connect: $(VENV)/spark
	@echo "installing semcast[connect] into $(VENV)" >&2
	@$(PIP) install -e '.[connect]'
	@touch $@

$(VENV)/fuzz: $(VENV)/dev
	@echo "installing semcast[fuzz] into $(VENV)" >&2
	@$(PIP) install -e '.[fuzz]'
	@touch $@

setup: $(VENV)/dev $(VENV)/spark  ## install everything for working on semcast

demo: $(VENV)/lab  ## five live processes, one of them slow: reliable beside semantic
	@$(SEMCAST) demo --out out/demo

check: $(VENV)/dev  ## format, lint, types, import rules
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

test: check $(VENV)/spark  ## every check, under ten minutes on two cores
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --ignore tests/pipeline
	@$(BIN)/python -m pytest tests/pipeline

swarm: $(VENV)/lab  ## SEEDS fault-injected runs of each protocol, then every mutant
	@for p in s-sm s-rm sm rm causal lbrm pbcast rpbcast s-vsm vs total; do $(SEMCAST) sim swarm --protocol $$p --seeds $(SEEDS) || exit 1; done
	@$(SEMCAST) sim mutants

soak: $(VENV)/fuzz $(VENV)/connect  ## over an hour: ten minutes of live traffic, faults, a million bad inputs
	@$(BIN)/python bench/soak.py
	@$(BIN)/python bench/views_live.py
	@SOAK=1 $(BIN)/python -m pytest tests/conformance
	@$(BIN)/python bench/sweep_kills.py
	@$(BIN)/python bench/fuzz.py
	@$(BIN)/python bench/kills.py
	@SEMCAST_TEST_MASTER='local-cluster[2,1,1024]' $(BIN)/python -m pytest tests/pipeline
	@$(BIN)/python bench/over_connect.py -m pytest tests/pipeline

bench: $(VENV)/dev $(VENV)/spark  ## speed of simulator, buffers, journal, views and pipeline, as ratios
	@$(BIN)/python bench/buffer.py
	@$(BIN)/python bench/journal.py
	@$(BIN)/python bench/simulator.py
	@$(BIN)/python bench/view_change.py
	@$(BIN)/python bench/ordered.py --against jgroups,corosync
	@$(BIN)/python bench/profiles.py
	@$(BIN)/python bench/check.py
	@$(BIN)/python bench/sweep.py

figures: $(VENV)/lab  ## the papers' figures into out/figures, with live points
	@$(SEMCAST) figures all --live --out out/figures

clean:  ## remove .venv and everything that was generated
	rm -rf $(VENV) out build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
