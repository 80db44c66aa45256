# windrow: `make demo` and `make test` do all the set-up they need.

PYTHON ?= python3
VENV ?= .venv
JAVA ?= $(if $(JAVA_HOME),$(JAVA_HOME)/bin/java,java)
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
CONSTRAINTS ?=
ENGINE ?= local
FILES ?= $(wildcard tests/conformance/*.json)
ARGS ?=
PAGES := README.md $(wildcard docs/*.md docs/*/*.md docs/*.ipynb)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv constraints java classes services browser demo quick test thorough check lint types docs format conformance bench release

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "PYTHON=$(PYTHON) chooses the Python that makes $(VENV); JAVA_HOME the Java that Spark runs on;"
	@echo "CONSTRAINTS=constraints.txt installs the versions that CI installs."

venv: $(STAMP) ## make the virtual environment, if it is missing or pyproject.toml is newer

$(STAMP): pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "windrow needs Python 3.11 or newer as $(PYTHON); another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { \
	  $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "$(PYTHON) cannot make virtual environments: its venv or ensurepip module is missing." >&2; \
	    echo "  Debian, Ubuntu: apt-get install python3-venv" >&2; exit 1; }; \
	  echo "making $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "installing windrow and its tools into $(VENV) (some minutes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(addprefix --constraint ,$(CONSTRAINTS)) --editable '.[dev]'
	@touch $@

constraints: $(STAMP) ## choose the versions anew that CI installs, with the Python that CI has
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --dry-run --ignore-installed \
	  --report $(VENV)/resolved.json --editable '.[dev]'
	$(BIN)/python -c "$$PINS" $(VENV)/resolved.json > constraints.txt

define PINS
import json, sys
print("# The versions that CI installs, for Python %s. `make constraints` chooses them anew." % sys.version[:4])
found = [each["metadata"] for each in json.load(open(sys.argv[1]))["install"] if not each["requested"]]
print(*sorted("%s==%s" % (each["name"].lower(), each["version"]) for each in found), sep="\n")
endef
export PINS

java:
	@version=$$("$(JAVA)" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1); \
	if [ "$${version:-0}" -lt 17 ]; then \
	  if [ -z "$$version" ]; then echo "Spark needs Java 17 or newer, and \"$(JAVA)\" does not run." >&2; \
	  else echo "Spark needs Java 17 or newer, and \"$(JAVA)\" is Java $$version." >&2; fi; \
	  echo "  Debian, Ubuntu: apt-get install openjdk-17-jre-headless" >&2; \
	  echo "  Fedora:         dnf install java-21-openjdk-headless" >&2; \
	  echo "  macOS:          brew install openjdk@17" >&2; \
	  echo "  Then set JAVA_HOME, unless the new java comes first on PATH." >&2; \
	  echo "  Without Java, \"make check\" runs everything that needs no Spark." >&2; \
	  exit 1; \
	fi

demo: java $(STAMP) ## run the sensor pipeline on an embedded Spark and show its result
	$(BIN)/python examples/sensor_min.py $(ARGS)

test: java $(STAMP) ## run everything that CI runs
	@$(MAKE) --jobs 2 lint types docs classes services
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder $(ARGS)

classes: java $(STAMP)
	@$(BIN)/python -m tests.spark_home

services: $(STAMP) browser
	@for name in kafka s3 hdfs; do \
		$(BIN)/python -m tests.services $$name fetch || echo "  tests that need it are skipped"; \
	done

browser: $(STAMP)
	@$(BIN)/python -m tests.browser || echo "  tests that need it are skipped"

thorough: java $(STAMP) ## run all tests for a night: also those of `thorough`; random ones draw twenty times as much
	HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest --timeout 7200 --numprocesses 2 --dist loadfile $(ARGS)

quick: $(STAMP) ## check in less than a minute what the working tree changes, without Spark
	@$(BIN)/python -m tests.quick $(ARGS)

check: lint types docs ## run everything that needs neither Spark nor Java
	$(BIN)/python -m pytest -m "not spark and not server" --numprocesses 2 --dist loadfile --no-loadscope-reorder $(ARGS)

lint: $(STAMP) ## check style, format, spelling and the direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/ruff format --check --quiet --line-length 84 $(PAGES)
	$(BIN)/codespell
	$(BIN)/lint-imports --no-logo

types: $(STAMP) ## check types with mypy --strict and with pyright in strict mode
	$(BIN)/mypy
	$(BIN)/basedpyright --pythonpath $(BIN)/python --level error

# In CI the check of pages fails without Chromium, so Chromium is installed before.
docs: $(STAMP) $(if $(CI),browser) ## build the pages into docs/_build/html, and check their links, length and looks
	@rm -rf docs/reference/classes
	$(BIN)/sphinx-build -q -E -W -n --keep-going -b html docs docs/_build/html
	$(BIN)/python -m tests.pages docs/_build/html || { [ $$? -eq 3 ] && [ -z "$$CI" ]; }  # 3: there is no Chromium

format: $(STAMP) ## mend style and format where a machine can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/ruff format --line-length 84 $(PAGES)

conformance: $(if $(filter spark,$(ENGINE)),java) $(STAMP) ## run the conformance cases; ENGINE=local|spark FILES="..."
	$(BIN)/python -m tests.conformance --engine $(ENGINE) $(FILES)

bench: java $(STAMP) ## run the benchmarks side by side
	$(BIN)/python -m benchmarks.run $(ARGS)

release: $(STAMP) ## build what a release uploads, and check it; ARGS="--tag v0.1.0 --spark"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[release]'
	$(BIN)/python -m tests.release $(ARGS)
