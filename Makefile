# Two commands do everything on a fresh machine: `make demo` and `make test`.
# Variables (make demo NAME=value): see docs/install.md.

PYTHON      ?= python3
VENV        ?= .venv
TORCH_SPEC  ?= torch==2.13.0
TORCH_INDEX ?=
JOBS        ?= 2
DEMO        ?= reefwatch-runs/demo
export PIP_DISABLE_PIP_VERSION_CHECK = 1

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test check tests bench docs readme clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z%-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# An environment that exists is filled, never made anew; a torch in it is never replaced.
$(VENV)/.reefwatch-run: pyproject.toml scripts/environment.py scripts/torch_source.py
	@$(PYTHON) scripts/environment.py $(VENV)
	@$(PYTHON) scripts/torch_source.py --python $(BIN)/python --spec "$(TORCH_SPEC)" --index "$(TORCH_INDEX)"
	@echo "reefwatch: installing into $(VENV)"
	@$(PIP) --editable '.[demo]'
	@touch $@

$(VENV)/.reefwatch-test: $(VENV)/.reefwatch-run
	@echo "reefwatch: installing what the tests need"
	@$(PIP) --editable '.[demo,test]'
	@touch $@

demo: $(VENV)/.reefwatch-run ## train a small CNN on real images under watch, and write its report
	@rm -rf $(DEMO)
	$(BIN)/reefwatch run --claim bf16-mixed --out $(DEMO) examples/digits_cnn.py

test: check tests ## all that CI runs: format, lint, types, import contracts, tests

check: $(VENV)/.reefwatch-test ## the fast part of it: format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Tests marked `serial` need the machine to themselves (torch.compile, several processes).
tests: $(VENV)/.reefwatch-test
	@failed=0; export OMP_NUM_THREADS=1; set -x; \
	$(BIN)/python -m pytest -q -m serial </dev/null || failed=1; \
	$(BIN)/python -m pytest -q -m "not serial" -n $(JOBS) </dev/null || failed=1; \
	set +x; exit $$failed

verify-%: $(VENV)/.reefwatch-test ## the full bars of one contract (compile, loop, precision, machine, numerics, triage, dist); writes docs/verified/
	$(BIN)/python scripts/verify $* $(PARTS)

bench: $(VENV)/.reefwatch-run ## what watching costs here; writes benchmarks/results/
	$(BIN)/python benchmarks/cost.py

docs: $(VENV)/.reefwatch-test ## write again the pages that are made from the checks
	$(BIN)/python scripts/docs.py

readme: $(VENV)/.reefwatch-test ## run the demo and show what it prints in both READMEs
	$(BIN)/python scripts/docs.py --demo

clean: ## remove the environment, caches and recorded runs
	rm -rf $(VENV) reefwatch-runs .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
