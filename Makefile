# `make demo` and `make test` are all that a newcomer needs: each sets up .venv by itself.
# Wanted: Python >= 3.11 and gcc or clang. Without a C compiler the ziglang wheel is installed.

PYTHON ?= python3
VENV   ?= .venv
JOBS   ?= 2

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# "zig" when no C compiler of the system answers.
ZIG := $(shell for c in "$(firstword $(CC))" clang gcc cc; do command -v $$c >/dev/null 2>&1 && exit 0; done; echo zig)
comma := ,
extras = $(1)$(if $(ZIG),$(comma)zig)

.PHONY: demo test lint docs bench clean help
.DELETE_ON_ERROR:

help:
	@echo "make demo   develop a photograph, print where every temporary lived"
	@echo "make test   linters, types, layers, documentation, tests"
	@echo "make lint   the linters alone        make docs   build the documentation into site/"
	@echo "make bench  the table of times       make clean  remove .venv and what was built"

$(VENV)/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "bayplan needs Python >= 3.11; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || $(PYTHON) -m virtualenv $(VENV) \
	  || { echo "cannot make $(VENV): install the venv module (Debian: apt-get install python3-venv)" >&2; exit 1; }
	@touch $@

$(VENV)/demo-ready: $(VENV)/made pyproject.toml
	@echo "setting up $(VENV) for the demo$(if $(ZIG), (no C compiler found: installing ziglang))"
	@$(PIP) -e '.[$(call extras,demo)]'
	@touch $@

$(VENV)/test-ready: $(VENV)/made pyproject.toml
	@echo "setting up $(VENV) for the tests$(if $(ZIG), (no C compiler found: installing ziglang))"
	@$(PIP) -e '.[$(call extras,demo$(comma)test$(comma)lint$(comma)docs)]'
	@touch $@

demo: $(VENV)/demo-ready
	@$(BIN)/python apps/demo.py

lint: $(VENV)/test-ready
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint docs
	$(BIN)/python -m pytest -n $(JOBS) $(PYTEST_ARGS)

docs: $(VENV)/test-ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

bench: $(VENV)/test-ready
	$(BIN)/python -m bench.apps
	$(BIN)/python -m bench.compile_time
	$(BIN)/python -m bench.storage
	$(BIN)/python -m bench.gpu
	$(BIN)/python -m bench.fem

clean:
	rm -rf $(VENV) build dist site out .pytest_cache .ruff_cache .mypy_cache .import_linter_cache
