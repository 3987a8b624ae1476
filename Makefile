# Everything that a person or a build server does with this repository. `make` alone lists the targets.
# Written for GNU make 3.81 (macOS) and later, and any POSIX sh.

PYTHON3 ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
READY   := $(VENV)/.ready
ARGS    ?=
FUZZ_EXAMPLES ?= 100000
TEST_WORKERS ?= 2

.PHONY: help setup run test lint types contracts unit test-slow test-cluster bench-broker bench-queue bench-ordered-queue bench-pipeline bench-operators bench-cdc bench-search bench-patterns bench-sketches bench-rpc bench-edges fuzz explore docs docs-reference format clean

help:
	@echo "make setup           set up .venv with everything that the targets below need"
	@echo "make run             start a broker with a small live stream and show it (Ctrl-C stops it)"
	@echo "make test            lint, format check, types, import contracts, tests"
	@echo "make test-slow       the slow tests: crashes under load, test suites of other clients"
	@echo "make test-cluster    jobs with checkpoints in HDFS and S3, and on a Spark cluster without a shared folder"
	@echo "make fuzz            FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) generated inputs for every decoder"
	@echo "make explore         check the properties of hypothesis with other inputs than make test"
	@echo "make bench-broker    measure the broker and Apache Kafka"
	@echo "make bench-queue     measure queues and transactions, RabbitMQ and Apache Kafka"
	@echo "make bench-ordered-queue  measure ordered queues and plain share groups"
	@echo "make bench-pipeline  measure jobs, sinks and plain PySpark"
	@echo "make bench-operators measure windows, joins and state, plain Spark and Flink SQL"
	@echo "make bench-patterns  measure row patterns and Flink's MATCH_RECOGNIZE"
	@echo "make bench-sketches  measure sketches over all time and exact aggregates of Spark"
	@echo "make bench-cdc       measure captures of PostgreSQL, COPY and Debezium"
	@echo "make bench-search    measure stored queries, a loop over them and Lucene's monitor"
	@echo "make bench-rpc       measure answers to questions, Storm and Spark"
	@echo "make bench-edges     measure HTTP, standard input, streams, StatsD, ZeroMQ and webhooks beside their peers"
	@echo "make docs            build the documentation site into site/; ARGS=serve shows it at http://127.0.0.1:8000"
	@echo "make docs-reference  generate the settings and command reference pages from the code"
	@echo "make format          format the code"
	@echo "make clean           remove .venv and all caches (never ./data)"
	@echo "Arguments for the tool behind a target: make run ARGS='--seconds 10', make unit ARGS='tests/cli -x'"

setup: $(READY)

# The stamp makes the second setup instant; a change of a dependency runs it again.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON3) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "Headrace needs Python 3.11 or later, and $(PYTHON3) is: $$($(PYTHON3) --version 2>&1)"; \
		echo "Install a newer version and set it: make setup PYTHON3=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON3) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' -c constraints.txt
	@sh .ci/system-packages
	@$(BIN)/headrace job prepare || echo "jobs will show this error again when they run; everything else works"
	@touch $(READY)

run: setup
	$(BIN)/headrace run $(ARGS)

test: lint types contracts unit

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

contracts: setup
	$(BIN)/lint-imports

# In two processes: the Kafka clients of the first tests keep many files open, and select, which PySpark uses, takes 1,024.
UNIT := $(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder -m "not slow and not bench and not cluster"
FIRST_TESTS := $(addprefix tests/,faults examples docs cli compatibility testing views gateway webhooks edges alerts)

unit: setup
ifeq ($(ARGS),)
	@failed=0; \
	$(UNIT) $(FIRST_TESTS) || failed=1; \
	$(UNIT) $(addprefix --ignore=,$(FIRST_TESTS)) || failed=1; \
	exit $$failed
else
	$(UNIT) $(ARGS)
endif

test-slow: setup
	$(BIN)/python -m pytest -m "slow and not bench and not cluster" $(ARGS)

test-cluster: setup
	$(BIN)/python -m pytest -m cluster $(ARGS)

fuzz: setup
	HEADRACE_TEST_FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) $(BIN)/python -m pytest -m fuzz --hypothesis-profile=fuzz --timeout=0 $(ARGS)

explore: setup
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadfile -m hypothesis --hypothesis-profile=explore --timeout=0 $(ARGS)

bench-broker: setup
	$(BIN)/python -m benchmarks.broker $(ARGS)

bench-queue: setup
	$(BIN)/python -m benchmarks.queue $(ARGS)

bench-ordered-queue: setup
	$(BIN)/python -m benchmarks.queue --only queue-ordered --json benchmarks/results/ordered-queue.json $(ARGS)

bench-pipeline: setup
	$(BIN)/python -m benchmarks.pipeline $(ARGS)

bench-operators: setup
	$(BIN)/python -m benchmarks.operators $(ARGS)

bench-patterns: setup
	$(BIN)/python -m benchmarks.patterns $(ARGS)

bench-sketches: setup
	$(BIN)/python -m benchmarks.approximation $(ARGS)

bench-cdc: setup
	$(BIN)/python -m benchmarks.cdc $(ARGS)

bench-search: setup
	$(BIN)/python -m benchmarks.search $(ARGS)

bench-rpc: setup
	$(BIN)/python -m benchmarks.rpc $(ARGS)

bench-edges: setup
	$(BIN)/python -m benchmarks.edges $(ARGS)

# A strict build fails on a dead link. The variable switches off the theme's advertisement.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs $(or $(ARGS),build --strict)

docs-reference: setup
	$(BIN)/python docs/make_reference.py $(ARGS)

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
