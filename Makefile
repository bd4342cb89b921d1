# `make run` and `make test` install everything they need into .venv; nothing else has to be known.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.core
# With pip's own bars; without the box in which setuptools warns of editable installs.
INSTALL := PYTHONWARNINGS=ignore $(BIN)/python -m pip install --disable-pip-version-check --progress-bar on
STAMP := $(VENV)/.installed
# Tests that neither start a process nor train a whole run.
QUICK := $(addprefix tests/,behaviors clock datamodules datasets functional io kernels loggers models nn optim planning replay rollout \
	test_cast.py test_layers.py test_seeding.py test_types.py) \
	$(addprefix tests/contracts/test_,acting.py cases.py reload.py second_device.py update.py)

.PHONY: help install run test quick slow lint format bench docs clean

help:
	@echo "make run      train PPO on CartPole to 475 and more, in about a minute"
	@echo "make test     ruff, mypy and the default tests"
	@echo "make quick    the arithmetic and the parts, in under two minutes; no lint"
	@echo "make slow     the long learning runs"
	@echo "make lint     ruff and mypy alone;  make format  lets ruff repair"
	@echo "make bench    ratios against other libraries, each in a venv of its own"
	@echo "make docs     write docs/options.md and docs/coming-from.md anew"
	@echo "make install  every extra into .venv;  make clean  removes it"

install: $(STAMP)

$(CORE): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (a minute or two the first time)"
	@$(INSTALL) --quiet --upgrade pip
	@$(INSTALL) -e .
	@touch $(CORE)

# Above Python 3.12 dm_control is installed without its dependencies: one of them, labmaze, cannot be built by pip.
$(STAMP): $(CORE)
	@echo "installing every extra and the tools of the tests (a few minutes the first time)"
	@$(INSTALL) -e '.[all,dev]'
	@if $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 13))'; then \
		$(INSTALL) --quiet --no-deps 'dm_control>=1.0.50,<1.1'; fi
	@touch $(STAMP)

run: $(CORE)
	@$(BIN)/rl fit --config ppo/cartpole

test: lint
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

quick: install
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal $(QUICK)

slow: install
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow -n 2

lint: install
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy rl_lightning

format: install
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: install
	@$(BIN)/python benchmarks/run.py

docs: install
	@$(BIN)/python scripts/make_options.py

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
