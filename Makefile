# Each target does all of its own set-up, in a virtual environment of this checkout.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SMK := Snakefile rules
WORDS := $(SMK) src scripts config profiles report docs tests benchmarks README.md CONTRIBUTING.md
# Several processes, to which whole files are given in the order of tests/conftest.py: what a file
# shares among its tests is made once. One more than there are processors, since some tests wait.
PROCESSES = $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
SIDE_BY_SIDE = -n $(PROCESSES) --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# What an editable installation compiles.
LOOPS := src/hatch_build.py $(wildcard src/unglow/core/kernels/*.[ch] src/unglow/core/kernels/building.py)

# Where it is set, every start of Snakemake and of a job compiles all of its libraries again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-fast oldest mutants lint settings format docs bench peers evidence wheels clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 18

$(BIN)/python:
	@$(PYTHON) -m venv $(VENV) || { \
	  rm -rf $(VENV); \
	  echo "Python's venv module is missing: install it (Debian: apt-get install python3-venv)." >&2; \
	  exit 1; }
	@$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/installed-%: pyproject.toml $(LOOPS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.$(EXTRA_$*)'
	@touch $@

EXTRA_run :=
EXTRA_test := [test,test-exports,cluster]
EXTRA_lint := [lint]
EXTRA_mutation := [test,test-exports,cluster,mutation]
EXTRA_docs := [docs]

demo: $(VENV)/installed-run  ## make a phantom pair, run the workflow on it, say where to look
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh benchmarks/demo.sh

test: $(VENV)/installed-test  ## run all tests
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest $(SIDE_BY_SIDE) $(ARGS)

test-fast: $(VENV)/installed-test  ## run the tests of functions only, without benchmarks and real runs
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not slow" tests/unit $(ARGS)

oldest:  ## run all tests with the oldest versions that pyproject.toml allows
	@test -x .venv-oldest/bin/python || $(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --editable '.[test,test-exports]' -c tests/oldest.txt
	@PATH="$(CURDIR)/.venv-oldest/bin:$$PATH" .venv-oldest/bin/python -m pytest $(SIDE_BY_SIDE) $(ARGS)

mutants: $(VENV)/installed-mutation  ## change the code that decides, count the changes that tests notice
	@mkdir -p mutants/src
	@PATH="$(CURDIR)/$(BIN):$$PATH" PYTHONPATH="$(CURDIR)/mutants/src" $(BIN)/mutmut run --max-children 2 $(ARGS)
	@$(BIN)/mutmut results

lint: $(VENV)/installed-lint  ## check style, types and the workflow
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell $(WORDS)
	$(BIN)/mypy
	cd benchmarks && $(abspath $(BIN))/mypy --config-file= --ignore-missing-imports --explicit-package-bases --exclude '^work/' .
	$(BIN)/snakefmt --check $(SMK)
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh tests/lint.sh
	$(BIN)/python config/write.py --check

settings: $(VENV)/installed-run  ## write schema, config.yaml and table of keys from the settings
	$(BIN)/python config/write.py

format: $(VENV)/installed-lint  ## rewrite sources in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt $(SMK)

docs: $(VENV)/installed-docs  ## build the documentation site in build/docs, and check its links
	$(BIN)/sphinx-build -q -W --keep-going -c docs/site . build/docs
	@echo "Open $(CURDIR)/build/docs/index.html in a browser."

bench: $(VENV)/installed-run  ## time the whole run against sizes, print a table
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python benchmarks/whole_run.py $(ARGS)

# Other tools, each in an environment of its own. EXO2MICRO is the directory of a clone.
PEERS := $(basename $(notdir $(wildcard benchmarks/evidence/peers/*.txt)))
ifndef EXO2MICRO
PEERS := $(filter-out exo2micro,$(PEERS))
endif
peers: $(PEERS:%=benchmarks/work/peers/%/installed)  ## install the other tools that evidence measures

benchmarks/work/peers/%/installed: benchmarks/evidence/peers/%.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet -r $<
	@touch $@

evidence: $(VENV)/installed-test  ## measure unglow next to other tools, write docs/evidence.md
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python benchmarks/evidence $(ARGS)

wheels: | $(BIN)/python  ## build the source archive and a wheel for each kind of machine
	$(BIN)/python -m pip install --quiet build
	$(BIN)/python -m build --sdist --outdir dist .
	for target in x86_64 aarch64 x86_64-macos arm64-macos; do \
	  UNGLOW_TARGET=$$target $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist . || exit 1; \
	done

clean:  ## remove the demo and caches, keep the virtual environment
	rm -rf demo build dist mutants .pytest_cache .mypy_cache .ruff_cache
