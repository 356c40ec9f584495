# Thin names for commands. Each sets up what it needs in .venv; nothing else has to be installed first.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The first of these that is new enough; `make PYTHON=... demo` names another.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
BIN := .venv/bin
# Tests that run at a time, file by file: more than cores, as the longest ones wait for time to pass.
WORKERS ?= 4
PIP := $(BIN)/python -m pip --quiet --no-input --disable-pip-version-check
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--custom-compile-command 'make lock' $(if $(UPGRADE),--upgrade)

.PHONY: help
help: ## print this list
	@sed -nE 's/^([a-z]+):[^#]*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

.PHONY: demo
demo: .venv/.runtime ## show a simulated GB300 NVL72 rack and what a rack service says of it, on http://127.0.0.1:10073
	@exec $(BIN)/rackwatt demo $(ARGS)

.PHONY: test
test: .venv/.dev ## everything: lint, types, import layers, tests
	@.ci/debian-packages
	@$(MAKE) --no-print-directory lint
	@echo "pytest"
	@$(BIN)/python -m pytest --no-header -n $(WORKERS) --dist loadfile $(ARGS)

.PHONY: soak
soak: .venv/.dev ## the long tests of what leaves the node, at full length
	@.ci/debian-packages
	@RACKWATT_SOAK=1 $(BIN)/python -m pytest --no-header -o faulthandler_timeout=7200 -k influx $(ARGS)

.PHONY: check
check: .venv/.dev lint ## lint, types, import layers, and whether the generated files are fresh
	@$(BIN)/python -m tests.golden --check
	@$(BIN)/rackwatt dashboards check

.PHONY: lint
lint: .venv/.dev
	@echo "ruff"
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet || { $(BIN)/ruff format --diff --quiet; exit 1; }
	@echo "mypy"
	@$(BIN)/mypy --no-error-summary
	@echo "import layers"
	@$(BIN)/lint-imports --no-cache > .venv/import-layers.log || { cat .venv/import-layers.log; exit 1; }

.PHONY: golden
golden: .venv/.dev ## write the golden files, dashboards, rules and the generated tables of README and docs anew
	@$(BIN)/python -m tests.golden
	@$(BIN)/rackwatt dashboards build

.PHONY: bench
bench: .venv/.bench ## measure; beside it nvitop-exporter over the same NVML double
	@.ci/debian-packages
	@$(BIN)/python -m tests.bench $(ARGS)

.PHONY: lock
lock: .venv/.dev ## pin the dependencies anew (UPGRADE=1: to their newest versions)
	@$(COMPILE) pyproject.toml --group dev --output-file deploy/requirements-dev.txt
	@$(COMPILE) pyproject.toml --constraints deploy/requirements-dev.txt --output-file deploy/requirements.txt
	@$(COMPILE) --group build --constraints deploy/requirements-dev.txt --output-file deploy/requirements-build.txt
	@$(COMPILE) --group bench --constraints deploy/requirements-dev.txt --output-file deploy/requirements-bench.txt

.PHONY: clean
clean: ## remove what these commands made, .venv included
	@rm -rf .venv build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find collector exporters dashboards tests -name __pycache__ -prune -exec rm -rf {} +

# Each file marks its set-up as done; it is made anew when what it stands for changes.
.venv/.runtime: deploy/requirements.txt deploy/requirements-build.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "rackwatt needs Python 3.11 or later, and found none on the PATH" >&2; exit 1; }
	@echo "setting up .venv: rackwatt and what it needs to run"
	@test -x $(BIN)/python || $(PYTHON) -m venv --clear .venv
	@$(PIP) install --require-hashes -r deploy/requirements.txt -r deploy/requirements-build.txt
	@$(PIP) install --no-index --no-deps --no-build-isolation --editable .
	@touch $@

.venv/.dev: .venv/.runtime deploy/requirements-dev.txt
	@echo "setting up .venv: the tools for tests and checks"
	@$(PIP) install --require-hashes -r deploy/requirements-dev.txt
	@touch $@

.venv/.bench: .venv/.dev deploy/requirements-bench.txt
	@echo "setting up .venv: what the bench compares with"
	@$(PIP) install --require-hashes -r deploy/requirements-bench.txt
	@touch $@
