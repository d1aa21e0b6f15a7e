# The commands of the README. Everything is installed into .venv; nothing needs to be there but Python 3.11 or newer.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo test check bench proto clean
.DEFAULT_GOAL := setup

setup: .venv/ready

.venv/ready: pyproject.toml tools/make-venv
	@PYTHON="$(PYTHON)" tools/make-venv .venv

demo: setup
	@$(BIN)/rainbow demo

check: setup
	tools/check

test: setup
	tools/run-tests

bench: setup
	$(BIN)/python -m bench

proto: setup
	$(BIN)/python tools/generate_protos.py

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache
