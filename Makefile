# make demo and make test are all a newcomer needs; both set up .venv first.
PYTHON ?= python3
BIN := .venv/bin
# each process begins with its own half of the files, so that they share few kernels and fixtures
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal

.PHONY: demo test test-long test-bounds test-browser test-published install check format bench docs clean-cache

demo: .venv/.runtime
	$(BIN)/latentmdp compile
	$(BIN)/latentmdp demo

test: .venv/.dev
	$(BIN)/latentmdp compile  # once; two processes of pytest would compile the same kernels
	$(PYTEST)

LONG := slow
test-long: .venv/.dev  ## what `make test` leaves out: long statistical and soundness tests
	$(BIN)/latentmdp compile
	$(PYTEST) -m "$(LONG)"

# what runs kernels, with every index checked; then two files without compiling at all
KERNEL_TESTS := tests/planning tests/evaluation tests/optimism tests/learning/test_learning_simulation.py
test-bounds: .venv/.dev  ## kernels with NUMBA_BOUNDSCHECK=1, and some without Numba
	NUMBA_BOUNDSCHECK=1 $(BIN)/latentmdp compile
	NUMBA_BOUNDSCHECK=1 $(PYTEST) --hypothesis-profile=few $(KERNEL_TESTS)
	NUMBA_DISABLE_JIT=1 $(PYTEST) --hypothesis-profile=few -k "slow_twin or brute" tests/optimism/test_optimism_kernels.py tests/evaluation/test_evaluation.py

test-browser: .venv/.dev  ## the report, opened in Debian's Chromium (skipped where there is none)
	$(BIN)/python -m pytest -m browser

test-published: .venv/.dev  ## problems of others: make test-published FOLDER=path
	LATENTMDP_PUBLISHED=$(abspath $(FOLDER)) $(BIN)/python -m pytest -m published

install: .venv/.dev

check: .venv/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: .venv/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/.dev
	for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

docs: .venv/.docs  ## the site, into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean-cache: .venv/.runtime  ## compiled kernels
	rm -rf "$${LATENTMDP_CACHE_DIR:-$$($(BIN)/python -c 'import platformdirs as p; print(p.user_cache_dir("latentmdp", False))')}"

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.runtime: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/pip install -q -c constraints.txt -e .
	touch $@

.venv/.dev: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	touch .venv/.runtime $@

.venv/.docs: .venv/.dev
	$(BIN)/pip install -q -c constraints.txt -e '.[docs]'
	touch $@
