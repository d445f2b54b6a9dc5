# Every target installs what it needs into .venv; nothing else on the machine is touched.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
INSTALL := $(BIN)/python install.py
SEMCAST := $(BIN)/semcast
# One process more than cores: many tests wait most of their time.
JOBS   ?= $(shell echo $$(( $$(nproc 2>/dev/null || echo 2) + 1 )))
SEEDS  ?= 2000
KERNEL := $(addprefix src/semcast/kernel/,reader.py run.py packing.py plain.py compiled.pxd) hatch_build.py
PROTOCOLS := s-sm s-rm sm rm causal lbrm pbcast rpbcast s-vsm vs total primary-backup replicated-data
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-main test-beside check same swarm soak bench figures clean

help:  ## what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

$(VENV)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if v >= (3, 11) else f"semcast needs Python 3.11 or newer, {v[0]}.{v[1]} found: make PYTHON=/path/to/python3.11")'
	@echo "making $(VENV)" >&2
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# pip writes bytecode for what it installs, but not for a checkout; without, where Python may not write it, each
# process of the demo and of the tests compiles every module again.
$(VENV)/lab: $(VENV)/python pyproject.toml constraints.txt
	@$(INSTALL) lab
	@$(BIN)/python -m compileall -q src/semcast
	@touch $@

# Compiled when semcast is installed, and again when its source has changed.
$(VENV)/kernel: $(KERNEL) | $(VENV)/lab
	@SEMCAST_KERNEL=compiled $(BIN)/python -c 'import semcast.kernel' 2>/dev/null \
	  || $(PIP) install --no-deps -e .
	@$(BIN)/python -c 'from semcast.kernel import PLAIN_REASON as why; why and print("the plain kernel runs, slower:", why)' >&2
	@touch $@

$(VENV)/dev: $(VENV)/lab
	@$(INSTALL) dev
	@touch $@

$(VENV)/spark: $(VENV)/dev
	@$(BIN)/python -c 'from semcast.pipeline.java import ensure_java; ensure_java()' 2>/dev/null || { \
	  echo "there is no Java on this machine" >&2; $(INSTALL) java; }
	@touch $@

$(VENV)/connect: $(VENV)/spark
	@$(INSTALL) connect
	@touch $@

$(VENV)/fuzz: $(VENV)/dev
	@$(INSTALL) fuzz
	@touch $@

$(VENV)/peers: $(VENV)/lab
	@$(INSTALL) peers
	@touch $@

# Spark starts without its archive of Java classes, only later; so one that cannot be made is no failure.
$(VENV)/archive: $(VENV)/spark
	@$(SEMCAST) spark-archive && touch $@ || true

setup: $(VENV)/kernel $(VENV)/dev $(VENV)/spark $(VENV)/archive  ## install everything for working on semcast

demo: $(VENV)/lab $(VENV)/kernel  ## five live processes, one of them slow: reliable beside semantic
	@$(SEMCAST) demo --out out/demo

check: $(VENV)/dev  ## format, lint, types, import rules
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

test: check $(VENV)/spark $(VENV)/kernel  ## every check, about ten minutes on two cores
	@$(MAKE) --no-print-directory --keep-going --jobs=2 test-main test-beside

test-main:
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --ignore tests/pipeline

# What runs in one process and waits little goes on beside tests that wait much; it is shown when it is done.
test-beside:
	@shown=$$(mktemp); ( set -e; echo "tests/pipeline, in one process with one Spark session"; \
	  $(BIN)/python -m pytest tests/pipeline; \
	  echo "again with the plain kernel"; export SEMCAST_KERNEL=plain; \
	  $(BIN)/python -m pytest tests/kernel --ignore tests/kernel/test_agreement.py --ignore tests/kernel/test_run.py tests/conformance/test_workload.py tests/conformance/test_networks.py; \
	  for p in $(PROTOCOLS); do $(SEMCAST) sim swarm --protocol $$p --seeds 20; done \
	) >$$shown 2>&1; code=$$?; cat $$shown; rm $$shown; exit $$code

same: $(VENV)/lab $(VENV)/kernel  ## does every protocol do exactly what it did? hashes of seeded runs
	@$(BIN)/python bench/same.py

swarm: $(VENV)/lab $(VENV)/kernel  ## SEEDS fault-injected runs of each protocol, a tenth on the plain kernel, every mutant
	@for p in $(PROTOCOLS); do $(SEMCAST) sim swarm --protocol $$p --seeds $(SEEDS) || exit 1; done
	@SEMCAST_KERNEL=plain; export SEMCAST_KERNEL; for p in $(PROTOCOLS); do $(SEMCAST) sim swarm --protocol $$p --seeds $$(( ($(SEEDS) + 9) / 10 )) || exit 1; done
	@$(SEMCAST) sim mutants

soak: $(VENV)/fuzz $(VENV)/connect $(VENV)/kernel  ## over an hour: ten minutes of live traffic, faults, a million bad inputs
	@$(BIN)/python bench/soak.py
	@$(BIN)/python bench/views_live.py
	@SOAK=1 $(BIN)/python -m pytest tests/conformance tests/pipeline/test_class_archive.py
	@SOAK=1 $(BIN)/python -m pytest -n $(JOBS) tests/core tests/kernel tests/properties tests/simulation tests/specs tests/traces tests/wire
	@SEMCAST_KERNEL=plain $(BIN)/python -m pytest tests/conformance
	@$(BIN)/python bench/sweep_kills.py
	@$(BIN)/python bench/fuzz.py
	@$(BIN)/python bench/fuzz.py --files
	@$(BIN)/python bench/kills.py
	@SEMCAST_TEST_MASTER='local-cluster[2,1,1024]' $(BIN)/python -m pytest tests/pipeline
	@$(BIN)/python bench/over_connect.py -m pytest tests/pipeline

bench: $(VENV)/dev $(VENV)/spark $(VENV)/kernel $(VENV)/peers  ## speed of groups beside other systems, of simulator, buffers, journal, views and pipeline, as ratios
	@$(BIN)/python bench/kernel.py
	@for b in throughput latency slow-receiver; do $(SEMCAST) bench $$b --against all --repeat 3 --out out/bench || exit 1; done
	@$(BIN)/python bench/growth.py --out out/growth
	@$(BIN)/python bench/buffer.py
	@$(BIN)/python bench/journal.py
	@$(BIN)/python bench/durable_log.py
	@$(BIN)/python bench/simulator.py
	@$(BIN)/python bench/view_change.py
	@$(BIN)/python bench/ordered.py --against jgroups,corosync
	@$(BIN)/python bench/store.py
	@$(BIN)/python bench/store_large.py
	@$(BIN)/python bench/profiles.py
	@$(BIN)/python bench/check.py
	@$(BIN)/python bench/sweep.py

figures: $(VENV)/lab $(VENV)/kernel  ## the papers' figures into out/figures, with live points
	@$(SEMCAST) figures all --live --out out/figures

clean:  ## remove .venv and everything that was generated
	rm -rf $(VENV) out build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -f src/semcast/kernel/compiled.*.so src/semcast/kernel/compiled.*.pyd
