# Everything is set up by what it makes: a fresh machine needs Python 3.11 or later and make, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.run-installed
DEV := $(VENV)/.dev-installed
WORKERS ?= auto

.PHONY: demo test test-all lint bench docs validate conformance fuzz oracle-openvino oracle-qonnx oracle-larq clean

demo: $(RUN)
	$(BIN)/npusim run workloads/digits.yaml

test: $(DEV) lint
	$(BIN)/python -m pytest -q -n $(WORKERS) -m "not slow"

test-all: $(DEV) lint
	$(BIN)/python -m pytest -q -n $(WORKERS)

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: $(DEV)
	$(BIN)/python -m pytest -q benchmarks -o addopts="--import-mode=importlib -p no:cacheprovider" -s

docs: $(DEV)
	$(BIN)/python -m scripts.make_docs

validate: $(DEV)
	$(BIN)/npusim validate

# SET=seed: the operators of the seed and RESCALE only
SET ?= all
conformance: $(DEV)
	$(BIN)/python -m scripts.conformance --set $(SET)

fuzz: $(DEV)
	$(BIN)/python -m scripts.fuzz $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed $(SEED))

oracle-openvino: $(DEV)
	$(BIN)/python scripts/oracle_openvino.py

oracle-qonnx oracle-larq: oracle-%: $(DEV)
	$(BIN)/python -m scripts.oracle_$* $(if $(COUNT),--cases $(COUNT)) $(if $(SEED),--seed $(SEED))

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(RUN): pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install -q --disable-pip-version-check -e .
	touch $@

$(DEV): pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install -q --disable-pip-version-check -e ".[dev]"
	touch $@ $(RUN)
