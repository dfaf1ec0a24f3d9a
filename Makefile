# Everything that a person or CI does with this tree. `make` alone lists it.
#
# A fresh Debian machine needs nothing but make: Python packages go into .venv, pinned with hashes; Debian packages
# are installed only as root, and every one is named before.

SHELL := /bin/sh
PYTHON := .venv/bin/python
STAGES := $(PYTHON) tests/stages.py
# The containerd or CRI-O to try the proxy on: empty = a private containerd of our own, or unix:///path, or embedded.
RUNTIME ?=

.DEFAULT_GOAL := help
.PHONY: help run test dev check fix mutants bench deb rpm image installer docs pictures transcripts changelog pins clean distclean

help: ## list these commands
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 16

run: ## try the proxy on this machine: real containers on chosen CPUs (RUNTIME=unix://... uses a running runtime)
	@packaging/setup/venv.sh run
	@[ -n "$(RUNTIME)" ] || packaging/setup/system.sh run
	@$(PYTHON) -m tests.tryout $(if $(RUNTIME),--runtime '$(RUNTIME)')

test: ## every test: the checks, a sample of mutants, the kill test, the soak, then real containerd, a browser, emulated machines
	@packaging/setup/venv.sh dev
	@packaging/setup/system.sh test
	@$(STAGES) check mutants kill soak e2e vm

dev: ## make everything that work on the project needs, in .venv
	@packaging/setup/venv.sh dev

check: dev ## the quick half of what CI runs: format, lint, types, imports, sizes, tests, docs
	@$(STAGES) check

fix: dev ## repair what a tool can: format, import order, simple lint
	@.venv/bin/ruff check --fix --quiet . || true
	@.venv/bin/ruff format .

mutants: dev ## plant small faults in policies, relay, ledger and what reads devices; list those that no test finds (AREA=ledger: there only)
	@$(PYTHON) -m tests.mutation $(AREA)

bench: dev ## measure: decisions, relay, discovery, start-up, memory; fails where a bar is missed
	@failed=; for script in $$(grep -l "^if __name__" benchmarks/*.py); do \
	    echo "=== $$script"; $(PYTHON) $$script || failed="$$failed $$script"; \
	done; [ -z "$$failed" ] || { echo "missed a bar:$$failed"; exit 1; }

deb: dev ## build the Debian package in dist/
	@packaging/deb/build.sh

rpm: dev ## build the rpm package in dist/; needs rpmbuild (Debian: apt install rpm)
	@packaging/rpm/build.sh

image: deb ## build the image of the config agent (packaging/kubernetes) from that package; needs docker, podman or buildah
	@packaging/image/build.sh

installer: dev ## build the image of the installer (packaging/kubernetes/installer) in dist/; needs no container engine, but patchelf
	@packaging/installer/build.sh

docs: dev ## write the tables of the reference pages from the code
	@$(PYTHON) packaging/reference.py

pictures: dev ## draw the pictures of docs/pictures: the page of a busy node, in a headless Chromium
	@$(PYTHON) -m tests.browser.pictures

transcripts: dev ## write the answers of docs/questions.md and the pictures of the terminal, as the commands print them now
	@$(PYTHON) -m tests.terminal

changelog: dev ## join the fragments of changes/ into docs/changelog.md (VERSION=0.2.0 releases them)
	@$(PYTHON) packaging/changelog.py $(VERSION)

pins: dev ## pin the dependencies of pyproject.toml, with hashes
	@packaging/requirements/pin.sh

clean: ## remove what checks and tests leave behind
	@rm -rf build dist .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

distclean: clean ## that, and the virtual environment
	@rm -rf .venv ./*.egg-info
