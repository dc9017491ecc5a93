# `make lab` is all a learner types. Every target first builds .venv where it is missing or older
# than pyproject.toml or constraints.txt. Another Python:  PYTHON=python3.11 make lab

PYTHON ?= python3
BIN    := .venv/bin
BASE   := .venv/.base
FULL   := .venv/.full
PIP    := $(BIN)/python -m pip --disable-pip-version-check $(if $(wildcard $(BASE)),--quiet)

LESSONS   := $(sort $(wildcard lessons/*.ipynb))
NOTEBOOKS := $(LESSONS) $(sort $(wildcard solutions/*.ipynb))

# JupyterLab keeps its token and its 127.0.0.1. As root, as in every container, it starts only when told to.
# The workspace, with lesson 1 and the welcome, is what `ddp-course welcome` writes.
LAB := $(if $(LESSONS),--LabApp.default_url=/lab/workspaces/ddp-course --LabApp.workspaces_dir=.ddp_course/jupyterlab) \
       $(if $(filter 0,$(shell id -u)),--allow-root)

# Serial: each notebook starts ranks of its own. Every stored output is compared, so the live panel is off.
NBVAL := --nbval --nbval-current-env --nbval-cell-timeout 120 \
         --nbval-sanitize-with tests/nbval_sanitize.cfg

.PHONY: help lab test test-fast test-slow lint format notebooks bench screenshots
.DELETE_ON_ERROR:

help:
	@echo 'make lab         check this machine, then open lesson 1 in JupyterLab (ARGS="--no-browser --port 8890")'
	@echo 'make test        everything CI runs: package, notebooks, JupyterLab in a browser'
	@echo 'make test-fast   the package alone        make test-slow   the repeated and long tests'
	@echo 'make lint        ruff and mypy            make format      let ruff rewrite'
	@echo 'make notebooks   build lessons/ and solutions/ from their sources'
	@echo 'make bench       how fast ranks start here, against plain torchrun'
	@echo 'make screenshots each section of each lesson in JupyterLab and Notebook 7, in build/screenshots/'

# .venv/bin comes first on PATH, so a terminal in JupyterLab finds the course's own torchrun.
# ddp_course/jupyter keeps JupyterLab from asking about news and updates over the first lesson.
IN_LESSONS = cd $(or $(wildcard lessons),.) && PATH="$(CURDIR)/$(BIN):$$PATH" && export PATH

lab: $(BASE)
	@$(IN_LESSONS) && ddp-course doctor && ddp-course welcome
	$(IN_LESSONS) && JUPYTER_CONFIG_PATH="$(CURDIR)/ddp_course/jupyter:$$JUPYTER_CONFIG_PATH" \
	  jupyter lab $(LAB) $(ARGS)

test: $(FULL)
	$(BIN)/python -m pytest -m 'not slow' tests $(ARGS)
	$(if $(strip $(NOTEBOOKS)),DDP_COURSE_PANEL=off $(BIN)/python -m pytest $(NBVAL) $(NOTEBOOKS))

test-fast: $(FULL)
	$(BIN)/python -m pytest -m 'not slow and not browser and not bank' tests $(ARGS)

test-slow: $(FULL)
	$(BIN)/python -m pytest -m slow tests $(ARGS)

lint: $(FULL)
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy

format: $(FULL)
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

notebooks: $(FULL)
	$(BIN)/python -m ddp_course.cli build $(ARGS)

bench: $(FULL)
	$(BIN)/python tests/bench.py $(ARGS)

screenshots: $(FULL)
	$(BIN)/python tests/screenshots.py $(ARGS)

# A .venv whose Python still starts is brought up to date where it is; any other is made anew.
$(BASE): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' || { \
	  echo "The course needs Python 3.10 to 3.13; '$(PYTHON)' is: $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Name one that is installed here:  PYTHON=python3.11 make $(firstword $(MAKECMDGOALS))" >&2; exit 1; }
	@$(BIN)/python -c '' 2>/dev/null || $(PYTHON) -m venv --clear .venv
	@echo 'Bringing .venv up to date: a few minutes the first time, most of them for PyTorch.'
	$(PIP) install -c constraints.txt -e .
	@touch $@

# axe-core looks at the pages for what keeps people from reading them; without npm its test is skipped.
$(FULL): $(BASE)
	$(PIP) install -c constraints.txt -e '.[authoring,test]'
	@! command -v npm >/dev/null || npm install --silent --no-save --prefix .venv axe-core@4.14.1
	@touch $@
