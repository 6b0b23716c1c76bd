# `make install`, then `make demo`: only make and a Python >= 3.11 have to be there.
# Every target may be repeated; what is done already is not done again.

VENV := .venv
BIN := $(VENV)/bin
DONE := $(VENV)/.done
# Whether a kernel that does not compile is an error. For users it is not: they have the Python decoders.
KERNEL := optional
KERNEL_SOURCES := $(shell find kernel \( -name target -o -name fuzz \) -prune -o -name '*.rs' -print -o -name '*.toml' -print 2>/dev/null)

.PHONY: help install demo test check check-rust site unit tests nightly nightly-slice fmt bench lock clean java

help:
	@echo "make install     everything changefeed needs, into .venv"
	@echo "make demo        install, then a pipeline from Kafka records to Delta tables, on this machine (SINK=iceberg: Iceberg tables)"
	@echo "make demo SOURCE=mysql  the same from a MariaDB that changes meanwhile; it needs Debian's mariadb-server-core, or the like"
	@echo "make test        install, then every check, and all tests except the nightly ones"
	@echo "make check       the static checks alone (style, types, layers, plain English, docs)"
	@echo "make check-rust  form, lints and tests of the Rust kernel, if cargo is installed"
	@echo "make site        the documentation as a web site, in build/site (CHANGEFEED_REPOSITORY=https://…: with a link to the repository)"
	@echo "make unit        the quick tests without a JVM, while you work: decoders, encoders, kernel, options, planner"
	@echo "make nightly     the long tests: storage faults, random kills, MySQL, Spark clusters, 100,000 damaged records of each protocol; two to three hours on two cores"
	@echo "make nightly-slice  an eighth of the nightly tests, chosen by the commit, within 25 minutes; CI runs it"
	@echo "make fmt         format the code as the checks require"
	@echo "make bench       records decoded per second, on this machine"
	@echo "make lock        write requirements.lock again (UPGRADE=1: with the newest versions)"
	@echo "make clean       remove everything that the other targets made, including .venv"

install: $(DONE)/editable java $(DONE)/jars $(DONE)/kernel $(DONE)/classes
	@$(BIN)/python -m compileall -q src
	@echo "ready: $(BIN)/changefeed"

demo: install
	$(BIN)/python examples/demo$(if $(SOURCE),_$(SOURCE)).py $(SINK)

# The kernel's checks need nothing of the installation, so that they run beside it.
test:
	@$(MAKE) --no-print-directory --jobs 2 KERNEL=required install check check-rust
	@$(MAKE) --no-print-directory tests

check: $(DONE)/editable
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/check_prose.py
	@if [ -f tools/check_docs.py ]; then set -x; $(BIN)/python tools/check_docs.py; fi
	$(BIN)/python tools/check_mirrors.py
	@$(MAKE) --no-print-directory site

# NO_MKDOCS_2_WARNING: MkDocs 1 is what the theme is made for.
site: $(DONE)/packages
	@$(BIN)/python tools/site_pages.py build/site-pages
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet && echo "build/site/index.html"

# In the folder in which the wheel is built: a second run compiles only what has changed.
check-rust:
	@MAKEFLAGS= tools/check_rust.sh

unit:
	$(BIN)/pytest -n 2 --dist loadgroup -m "not spark and not nightly and not slow"

# Three workers: two have a group of tests that share a JVM (tests/conftest.py), which also wait for brokers and processes.
tests:
	$(BIN)/pytest -n 3 --dist loadgroup --durations 50

# All that is random has new seeds each night, so that the nights together try many times these numbers.
nightly: install
	CHANGEFEED_TURN=nightly $(BIN)/pytest -n 3 --dist loadgroup -m nightly
	CHANGEFEED_EXAMPLES=5 CHANGEFEED_HISTORIES=1000 CHANGEFEED_SCHEDULES=2500 CHANGEFEED_NATIVE_HISTORIES=50 $(BIN)/pytest \
	  -n 2 --dist loadgroup --timeout 7200 tests/pipeline tests/sinks/delta_native -m "not spark"
	CHANGEFEED_EXAMPLES=10 CHANGEFEED_MUTATIONS=100000 CHANGEFEED_MUTANTS=100000 $(BIN)/pytest -n 2 --dist loadgroup --timeout 7200 \
	  tests/protocols/conformance tests/kernel tests/frames tests/wire -m "not spark" -k "mutated or mutants or any or every_type"

# See tests/nightly_slice.py.
nightly-slice: install
	CHANGEFEED_TURN=nightly PYTHONPATH=. $(BIN)/pytest -p tests.nightly_slice --slice $$(git rev-parse HEAD) --minutes 25 \
	  -n 2 --dist loadgroup --no-loadscope-reorder -m nightly --durations 20

fmt: $(DONE)/packages
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: install
	$(BIN)/changefeed bench decode

lock: $(DONE)/packages
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --custom-compile-command "make lock" $(if $(UPGRADE),--upgrade) \
	  --all-extras --group dev pyproject.toml -o requirements.lock

clean:
	rm -rf $(VENV) build dist kernel/target .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(BIN)/python:
	@tools/make_venv.sh $(VENV)

$(DONE)/packages: requirements.lock tools/install_packages.sh | $(BIN)/python
	@mkdir -p $(DONE)
	@tools/install_packages.sh $(BIN)/python requirements.lock
	@touch $@

$(DONE)/editable: pyproject.toml $(DONE)/packages
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

java: $(DONE)/editable
	@tools/ensure_java.sh $(BIN)/python

$(DONE)/jars: src/changefeed/spark_runtime/jars.py $(DONE)/editable | java
	@echo "jars: fetching Delta and the Kafka connector into the user's cache, unless they are there"
	@$(BIN)/python -m changefeed.spark_runtime.jars
	@touch $@

$(DONE)/kernel: $(KERNEL_SOURCES) tools/install_kernel.sh $(DONE)/packages
	@MAKEFLAGS= KERNEL=$(KERNEL) tools/install_kernel.sh $(BIN)/python $@

# A first run, which leaves an archive of Spark's classes in the user's cache: later runs start in two thirds of the time.
$(DONE)/classes: src/changefeed/spark_runtime/jars.py tools/first_run.sh | $(DONE)/jars $(DONE)/kernel
	@tools/first_run.sh $(BIN)/python
	@touch $@
