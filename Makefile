# Two commands do all the set-up on a fresh Debian or Ubuntu: `make demo` and `make test`.
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-unit test-core test-integration test-spark test-faults \
        test-wheel test-interop test-docs format lint types imports protos protos-current docs docs-serve proofs bench soak check lock clean

# Services, workers and commands are started by the hundred: each would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
ARGS ?=
WORKERS ?= 2

help: ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Install everything: Python packages, services, jars (quick when done before)
	@scripts/setup python core services

.python:
	@scripts/setup python
.demo:
	@scripts/setup python java
.core:
	@scripts/setup core
.services:
	@scripts/setup python services
.PHONY: .python .demo .core .services

demo: .demo ## See what Windrow does, on embedded parts: ARGS=--small is quicker
	@$(BIN)/windrow demo --report build/demo.html $(ARGS)

test: .services test-wheel ## Every test, against the real services, as many files at a time as WORKERS
	$(PYTEST) --require-services -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

test-unit: .python ## Tests that need no service
	$(PYTEST) tests/unit $(ARGS)

test-core: .core ## The same, with no extra installed
	@.venv-core/bin/python -m pytest -q -n $(WORKERS) tests/unit $(ARGS)

test-integration: .services ## Real PostgreSQL, Kafka, etcd, MariaDB, Chromium
	$(PYTEST) --require-services tests/contract tests/integration tests/e2e $(ARGS)

test-spark: .services ## Real Spark
	$(PYTEST) --require-services tests/spark $(ARGS)

test-faults: .services ## Kill things at the worst moment and count at the consumer
	$(PYTEST) --require-services tests/faults $(ARGS)

test-wheel: .python ## Build the wheel and try it in an empty environment
	@scripts/test-wheel

test-interop: .services ## A stock gazctl against our brokers: make test-interop GAZCTL=<path>
	GAZCTL=$(GAZCTL) $(PYTEST) --require-services tests/interop $(ARGS)

test-docs: .services ## Run the code blocks of README and docs
	$(PYTEST) tests/docs $(ARGS)

soak: .services ## The product of all fault points; hours
	$(PYTEST) --require-services --soak tests/faults tests/e2e/test_demo.py $(ARGS)

format: .python ## Rewrite in the project's format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix --quiet .

lint: .python ## Format and lint, changing nothing
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .

types: .python ## mypy, strict, tests too
	@$(BIN)/mypy --no-error-summary

imports: .python ## Imports point down
	@$(BIN)/lint-imports >build/imports.log || { cat build/imports.log; exit 1; }

protos: .python ## Generate the Python of every .proto
	@scripts/protos

protos-current: .python ## What is generated is what the .proto files say
	@scripts/protos --check

docs: .python ## Build the documentation, strictly
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir build/site >build/docs.log 2>&1 \
	  || { cat build/docs.log; exit 1; }

proofs: .python ## Write docs/proofs.md from the last full test run
	@$(BIN)/python scripts/proofs

bench: .services ## Measure everything in full and write docs/performance.md
	$(BIN)/windrow bench all --write docs/performance.md $(ARGS)

check: lint protos-current types imports test-core docs ## What every commit passes: no service, under 3 minutes

lock: .python ## Resolve the dependencies anew
	@scripts/lock

clean: ## Remove what was built here (not the shared caches)
	rm -rf build dist .venv .venv-core .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
