# stratabench. `make demo` and `make test` set up what is missing by themselves.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MVN ?= mvn
JAVA_SOURCES := $(shell find ycsb-fork -name target -prune -o \( -name '*.java' -o -name 'pom.xml' -o -path '*/src/main/resources/*' \) -print 2>/dev/null)

.PHONY: help demo test test-guests test-hosts test-bench test-scaling testbed testbed-down setup setup-dev system proto lint lock clean

help:            ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

demo: setup      ## benchmark a 3-node HBase-on-HDFS cluster on this machine
	@$(BIN)/strata run demo -i inventories/local

test: setup-dev  ## the checks and tests, about an hour; the targets below are more of them, or part of it
	@.ci/test

test-guests: setup-dev  ## the tracer and its tests on other kernels, in virtual machines
	@$(BIN)/python -m pytest tracer/guests

test-hosts: setup-dev  ## roles (molecule) and clusters over ssh on test hosts of this machine (root)
	@$(BIN)/python -m pytest -m testbed ansible

test-bench: setup-dev  ## the tracer's bench: attached and detached under load (root, quiet machine)
	@$(BIN)/python -m pytest -m bench tracer/bench

test-scaling: setup-dev  ## a cluster that grows, and a controller killed on the way
	@$(BIN)/python -m pytest -m scaling controller/tests/e2e

testbed:         ## six test hosts on this machine (root)
	@ansible/testbed/testbed up 6

testbed-down:    ## take them down
	@ansible/testbed/testbed down

setup: system $(VENV)/.runtime ycsb-fork/.built tracer  ## what a run needs

setup-dev: system-dev $(VENV)/.dev ycsb-fork/.built tracer-bench  ## what the tests need

.PHONY: system-dev tracer tracer-bench
system:
	@.ci/system-packages

system-dev:
	@.ci/system-packages --tests

$(VENV)/.runtime: .ci/requirements.txt pyproject.toml
	@.ci/venv $(PYTHON) $(VENV) .ci/requirements.txt
	@touch $@

$(VENV)/.dev: .ci/requirements-dev.txt pyproject.toml
	@.ci/venv $(PYTHON) $(VENV) .ci/requirements-dev.txt
	@touch $@ $(VENV)/.runtime

# The jars of the load client; its tests are part of `make test`.
ycsb-fork/.built: $(JAVA_SOURCES)
	@echo "setup: building the load client (Maven)" >&2
	@$(MVN) -q -B -ntp -f ycsb-fork/pom.xml package -DskipTests
	@touch $@

# Without a compiler for BPF the demo still runs and says that the I/O is not traced.
tracer:
	@if .ci/can-build-tracer; then $(MAKE) -s -C tracer; fi

tracer-bench: tracer
	@if .ci/can-build-tracer; then $(MAKE) -s -C tracer alternating; fi

proto:           ## regenerate the gRPC code
	@PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/python -m grpc_tools.protoc -I . --python_out=. --mypy_out=. \
	  --grpc_python_out=. --mypy_grpc_out=. agent/api/agent.proto 2>/dev/null

lint: setup-dev  ## static checks only
	@.ci/lint

lock:            ## renew the pinned dependencies (needs pip-tools)
	@pip-compile -q --allow-unsafe --generate-hashes --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --strip-extras \
	  --no-header -o .ci/requirements.txt pyproject.toml
	@pip-compile -q --allow-unsafe --generate-hashes --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --strip-extras \
	  --no-header --extra dev -o .ci/requirements-dev.txt pyproject.toml

clean:           ## remove what was built (results and downloads stay)
	@rm -rf $(VENV) ycsb-fork/.built tracer/build
	@$(MVN) -q -B -f ycsb-fork/pom.xml clean
