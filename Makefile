# The commands of the README. Everything is installed into .venv; nothing needs to be there but Python 3.11 or newer.
PYTHON ?= python3
export RAINBOW_VENV ?= .venv
BIN := $(RAINBOW_VENV)/bin
READY := $(RAINBOW_VENV)/ready
LOCKED := requirements/development.txt requirements/pip.txt

# When PYTHON was given and the environment is of another version, the environment is made again.
VERSION_OF = $(shell $(1) -c 'import sys; print(*sys.version_info[:3])' 2>/dev/null)
ifneq ($(origin PYTHON),file)
ifneq ($(call VERSION_OF,$(PYTHON)),$(call VERSION_OF,$(BIN)/python))
.PHONY: $(READY)
endif
endif

.PHONY: setup demo test test-all test-newest test-oldest check bench proto dist upgrade clean
.DEFAULT_GOAL := setup

setup: $(READY)

$(READY): pyproject.toml tools/make-venv $(LOCKED)
	@PYTHON="$(PYTHON)" tools/make-venv $(RAINBOW_VENV)

demo: setup
	@$(BIN)/rainbow demo

check: setup
	tools/check

test: setup
	tools/run-tests

# What takes longer than `make test` may: the other Python versions that are installed here.
test-all: setup
	tools/run-tests-all

# The tests of `make test` with the newest and the oldest versions that pyproject.toml allows.
test-newest test-oldest:
	@PYTHON="$(PYTHON)" tools/run-tests-unlocked $(@:test-%=%)

bench: setup
	$(BIN)/python -m bench

proto: setup
	$(BIN)/python tools/generate_protos.py
	$(BIN)/python tools/generate_api_reference.py

dist: setup
	@tools/build-wheel dist

# Renews requirements/*.txt: the newest versions that pyproject.toml allows.
upgrade:
	@PYTHON="$(PYTHON)" tools/lock upgrade

clean:
	rm -rf .venv .venv-* build dist .mypy_cache .ruff_cache .pytest_cache
