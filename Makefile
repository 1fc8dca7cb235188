# Everything that a clean clone needs: `make demo`, `make lab`, `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ALLOW_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)
LABFLAGS ?=

.PHONY: setup demo lab test check bench pictures clean

setup: $(READY)

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	touch $(READY)

demo: setup
	AF_APPROVALS=approve $(BIN)/python notebooks/demo.py

lab: setup
	$(BIN)/jupyter lab notebooks/01_quickstart.ipynb $(ALLOW_ROOT) $(LABFLAGS)

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: check
	$(BIN)/pytest
	AF_APPROVALS=approve $(BIN)/pytest --nbval notebooks

bench: setup
	$(BIN)/python tests/bench/run.py

pictures: setup
	AF_PICTURES=docs $(BIN)/pytest tests/browser/test_pictures.py

clean:
	rm -rf $(VENV) build
