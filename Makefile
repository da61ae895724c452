# Self-help for contributors; CONTRIBUTING.md explains. PYTHON names another interpreter, for example `make test PYTHON=python3.12`.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: help setup test quick full nightly lint format types docs docs-check bench demo clean

help:           ## show these lines
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -e 's/:[^#]*## /\t/' | expand -t 14

setup: $(BIN)/git-mem  ## make .venv with git mem from this checkout and the development tools

$(BIN)/git-mem: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

test:           ## what CI runs: lint, types, and all tests on the installed wheel, in a clean environment
	PYTHON=$(PYTHON) sh tools/test.sh

quick: setup    ## two minutes on the checkout: tests without a repository, and every command once
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest -q -n auto --dist worksteal -m "quick and not nightly" \
	--ignore tests/test_llama.py $(ARGS)  # needs llama-cpp-python, which make setup does not build

full: setup     ## all tests on the checkout; `make full ARGS="-k fold"` for some of them
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest -q -n auto --dist worksteal $(ARGS)

nightly: setup  ## all tests, the long ones too, every git mem a process; takes hours
	GIT_MEM_TEST_PROCESS=1 GIT_MEM_SIM=long GIT_MEM_FAULTS=all GIT_MEM_HISTORIES=200 \
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest -q -n auto --dist worksteal -m "" $(ARGS)

lint: setup     ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: setup   ## write the code as ruff formats it
	$(BIN)/ruff format .

types: setup    ## mypy, strict
	$(BIN)/mypy --strict gitmem

docs: setup     ## write the generated documents anew
	$(BIN)/python tools/generate_docs.py

docs-check: setup  ## say which generated documents are out of date
	$(BIN)/python tools/generate_docs.py --check

bench: setup    ## the benchmarks; needs the evaluation texts, see perf/data.py
	$(BIN)/python perf/bench.py $(ARGS)

demo: setup     ## `git mem tour` from this checkout
	$(BIN)/git-mem tour

clean:          ## remove what these targets made
	$(PYTHON) -c "import shutil; [shutil.rmtree(d, ignore_errors=True) for d in ('$(VENV)', '.cache', 'dist', 'build')]"
