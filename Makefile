# One environment, .venv, made if it is missing and updated when a requirement file changes.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
WORKERS ?= 3
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
CODE := $(wildcard siltstone tests bench examples services docs/site)
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input

# The tests start hundreds of processes, and each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

# The name of a stamp contains the digest of its requirement files, so after a change the stamp is
# missing.
digest = $(firstword $(shell cat $(1) | sha256sum))
DEV := $(VENV)/dev-$(call digest,requirements/build.txt requirements/dev.txt)
SPARK := $(VENV)/spark-$(call digest,requirements/build.txt requirements/dev.txt requirements/spark.txt)
DOCS := $(VENV)/docs-$(call digest,requirements/build.txt requirements/dev.txt requirements/docs.txt)
FUZZ := $(VENV)/fuzz-$(call digest,requirements/build.txt requirements/dev.txt requirements/fuzz.txt)
SELF := $(VENV)/self-$(call digest,requirements/build.txt pyproject.toml)

# Two runs of make in one tree must not install at the same time; the second finds the stamp and does nothing.
locked = exec 9>.venv.lock; flock 9; if [ -e $@ ]; then exit 0; fi

.PHONY: help setup jar demo test test-fast services soak lint format types bench peers docs dist requirements clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(SELF) $(SPARK) jar ## make .venv with everything in it, Spark too

demo: $(SELF) $(SPARK) jar ## the flights demo: load, read back, query with Spark
	$(BIN)/python -m examples.flights $(ARGS)

# The jar records its sources, so nothing is compiled twice. Without javac everything except silt://
# works; CI must have javac.
jar: | $(SELF)
	@$(BIN)/python siltstone/spark/jvm/jar.py || test "$${CI:-}" != true

# The tests of Spark, which share one session, run while the others run: each of the two often waits
# without using the processor. What ARGS chooses may be in one of them only, and pytest ends with 5
# if it finds nothing.
test: $(SELF) $(SPARK) jar ## every test but the soak tests
	$(BIN)/python -m services fetch --required
	@mkdir -p build; \
	$(BIN)/pytest -p no:xdist -o testpaths=tests/spark -m "spark and not soak" $(ARGS) > build/spark-tests.log 2>&1 & spark=$$!; \
	trap 'kill $$spark 2> /dev/null || true' EXIT; \
	main=0; $(BIN)/pytest -n $(WORKERS) --dist worksteal --ignore=tests/spark -m "not spark and not soak" $(ARGS) || main=$$?; \
	beside=0; wait $$spark || beside=$$?; \
	cat build/spark-tests.log; \
	for status in $$main $$beside; do test $$status -eq 0 -o $$status -eq $(if $(ARGS),5,0); done

# What a change breaks first: rules of the source, units, and the contracts that need no server.
# Models, faults and simulations are only in make test.
FAST := tests/architecture tests/unit $(addprefix tests/contract/test_,memory.py memory_log.py file_log.py nfs.py)

test-fast: $(SELF) ## units and contracts that need neither Spark nor a server nor patience
	$(BIN)/pytest -n 2 --dist worksteal -m "not spark and not services and not slow and not soak" $(if $(filter tests/%,$(ARGS)),,$(FAST)) $(ARGS)

services: $(SELF) ## the servers of the tests, fetched and running until Ctrl-C
	$(BIN)/python -m services run $(ARGS)

soak: $(SELF) $(FUZZ) ## the tests that run for minutes; ARGS chooses some, see docs/soak.md
	$(BIN)/python -m services fetch --required
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -m soak --timeout=3600 -o faulthandler_timeout=0 $(ARGS)

lint: $(SELF) ## ruff, its formatter, and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

format: $(SELF) ## let ruff put the code in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(SELF) $(SPARK) ## mypy, strict
	$(BIN)/mypy $(CODE)

bench: $(SELF) jar ## the benchmarks
	$(BIN)/python -m bench $(ARGS)

peers: $(SELF) ## the engines that the benchmarks compare with, into .venv
	$(PIP) install --quiet --require-hashes -r requirements/bench.txt

docs: $(SELF) $(DOCS) ## the site of the documents, in build/site; a dead link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

dist: $(SELF) jar ## wheel and sdist in dist/, and the tour run from the wheel alone
	rm -rf dist build/clean
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(PYTHON) -m venv build/clean
	build/clean/bin/python -m pip install --quiet --require-hashes -r requirements/base.txt
	build/clean/bin/python -m pip install --quiet --no-deps dist/siltstone-*.whl
	cd build/clean && bin/python -I $(CURDIR)/examples/tour.py

# The files contain no addresses of package indexes: each machine configures its own.
requirements: export CUSTOM_COMPILE_COMMAND = make requirements
requirements: $(SELF) ## pin every requirement file again from its .in file
	for name in build base dev spark fuzz bench docs; do \
	  PIP_FIND_LINKS= $(BIN)/pip-compile --quiet --upgrade --generate-hashes --allow-unsafe --strip-extras \
	    --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options \
	    --output-file requirements/$$name.txt requirements/$$name.in; \
	done

clean: ## remove what make made
	rm -rf $(VENV) .venv.lock build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(DEV):
	@$(locked); \
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("siltstone needs Python 3.11 or newer; this is %s. Name another: make PYTHON=python3.12 ..." % sys.version.split()[0])'; \
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV); \
	echo "installing the development set into $(VENV)"; \
	$(PIP) install --quiet --require-hashes -r requirements/build.txt; \
	$(PIP) install --quiet --require-hashes --no-build-isolation -r requirements/dev.txt; \
	rm -f $(VENV)/dev-*; touch $@

$(SPARK): | $(DEV)
	@$(locked); \
	echo "installing the Spark set into $(VENV): takes some minutes"; \
	$(PIP) install --quiet --require-hashes --no-build-isolation -r requirements/spark.txt; \
	rm -f $(VENV)/spark-*; touch $@

$(DOCS): | $(DEV)
	@$(locked); \
	$(PIP) install --quiet --require-hashes --no-build-isolation -r requirements/docs.txt; \
	rm -f $(VENV)/docs-*; touch $@

$(FUZZ): | $(DEV)
	@$(locked); \
	$(PIP) install --quiet --require-hashes --no-build-isolation -r requirements/fuzz.txt; \
	rm -f $(VENV)/fuzz-*; touch $@

$(SELF): | $(DEV)
	@$(locked); \
	$(PIP) install --quiet --no-deps --no-build-isolation -e .; \
	rm -f $(VENV)/self-*; touch $@
