# Needs python3 (3.11 or later), make and pip; everything else is set up in .venv on first use.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev
DOCS_STAMP := $(VENV)/.installed-docs
INSTALL := $(RUN) -m pip install --disable-pip-version-check --constraint constraints.txt
JOBS ?= 2

export MPLBACKEND := Agg
# Tests start hundreds of processes: none should have to compile what another has compiled.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup demo test lint compile system verify coverage mutants fuzz browser bench docs clean

help:
	@echo "make demo     the paper's 9x9 grid world: X-MEN against its rivals; figures go to demo/"
	@echo "make test     ruff, mypy --strict and every test that tells whether a change is right: four minutes on two cores"
	@echo "make system   real processes, Ctrl-C, clusters, the studio's page, every page and example"
	@echo "make verify   statistics: more cases, more seeds, the long fuzz; then the lines that make test runs"
	@echo "make mutants  MUTANTS=400 small bugs, SEED=0: which of them make test catches"
	@echo "make fuzz     FUZZ=20000 damaged inputs of each of six kinds: an answer or an XmenError, within 5 s and 1 GB"
	@echo "make browser  a Chromium for the tests of the studio's page, where the system allows; axe-core, Prettier, TypeScript from npm"
	@echo "make bench    measure speed and growth"
	@echo "make docs     build the documentation into site/"
	@echo "make setup    only create $(VENV), with what the README uses: the core, Studio, Gymnasium, networkx"
	@echo "make clean    remove $(VENV) and caches"

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and "xmen needs Python 3.11 or later, $(PYTHON) is %d.%d: try make PYTHON=python3.11" % v[:2])'
	@# Some systems ship python3 and pip without ensurepip; pip then installs itself from outside.
	test -x $(RUN) && $(RUN) -m pip --version >/dev/null 2>&1 \
	  || $(PYTHON) -m venv --clear $(VENV) \
	  || { $(PYTHON) -m venv --clear --without-pip $(VENV) && $(PYTHON) -m pip --python $(RUN) install --quiet pip; }
	$(INSTALL) --editable ".[studio,gymnasium,networkx]"
	@touch $@

# What only tests, types and benchmarks need: torch, ray, ortools, osmnx, a browser's driver, about 2 GB.
$(DEV_STAMP): $(STAMP)
	$(INSTALL) --editable ".[dev]"
	@touch $@

demo: setup
	$(RUN) -m xmen.cli reproduce grid --quick --out demo

lint: $(DEV_STAMP)
	$(RUN) -m ruff check
	$(RUN) -m ruff format --check
	$(RUN) -m mypy --strict
	$(VENV)/bin/lint-imports

PYTEST := $(RUN) -m pytest -q -n $(JOBS) --dist worksteal
QUICK := -m "not slow and not system"

# Kernels are kept beside the source: what one process has compiled here, the processes of the tests find.
compile: $(DEV_STAMP)
	$(RUN) -m pytest -q -n 0 tests/engines/test_contract.py tests/learners/test_contract.py tests/engines/test_trips.py \
	  tests/policies/test_shield.py -k "worth_asking or samples_are_valid or the_same_again or batches or shield"

test: $(DEV_STAMP)
	@$(MAKE) --no-print-directory -j $(JOBS) lint compile
	$(PYTEST) $(QUICK)

system: $(DEV_STAMP)
	$(PYTEST) -m "system and not slow"

FUZZ ?= 20000

verify: lint
	XMEN_VERIFY=1 XMEN_FUZZ=$(FUZZ) $(PYTEST) -m "not system"
	@$(MAKE) --no-print-directory coverage

# Compiled loops are counted too, as Python; some tests are cut short there, and fail.
coverage: $(DEV_STAMP)
	rm -rf .lines && mkdir .lines
	-PYTHONPATH=tests NUMBA_DISABLE_JIT=1 $(PYTEST) -p lines $(QUICK) -W ignore::RuntimeWarning --tb=no >.lines/log
	cd .lines && ../$(RUN) -m coverage combine --quiet && ../$(RUN) -m coverage report --skip-covered --sort=cover

MUTANTS ?= 400
SEED ?= 0

mutants: $(DEV_STAMP)
	test -e .lines/.coverage || $(MAKE) --no-print-directory coverage
	$(RUN) tests/mutants.py --number $(MUTANTS) --seed $(SEED) --jobs $(JOBS)

fuzz: $(DEV_STAMP)
	XMEN_FUZZ=$(FUZZ) $(PYTEST) tests/fuzz

browser: $(DEV_STAMP)
	$(RUN) tests/studio/browser/tools.py

bench: $(DEV_STAMP)
	$(RUN) benchmarks/exact.py --quick
	$(RUN) benchmarks/xor.py --quick
	$(RUN) benchmarks/learn.py --quick
	$(RUN) benchmarks/causal.py --quick

$(DOCS_STAMP): $(STAMP)
	$(INSTALL) --editable ".[docs]"
	@touch $@

docs: $(DOCS_STAMP)
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict
	@echo "open site/index.html"

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .lines build dist site
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
