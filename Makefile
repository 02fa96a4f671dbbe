# Needs git, make and Python 3.11 or newer. Every command but help first brings .venv to what requirements.lock says.
#
#   make quickstart   train the first comparison on the embedded digits, print it and write its report
#   make test         run the tests that protect most, on all cores; ARGS="-k blur" goes to pytest instead
#   make test-rest    run the other tests: all operators, graphs, several processes, pages, the wheel
#   make lint         check style, formatting, types and that all code is called
#   make docs         build the documentation into build/docs; needs no network
#   make setup        only install
#   make lock         resolve pyproject.toml into requirements.lock again; ARGS=--upgrade goes to uv
#
# On Linux, CNNPOOL_TORCH=cpu takes torch's build without CUDA, from torch's own server: about 2 GB on disk
# instead of 7, whose two packages alone come without hashes to check them against. Where that server cannot be
# reached, a line says so and the ordinary build is taken. PYTHON=python3.12 chooses the Python.

BIN := .venv/bin
NEW_ENOUGH := -c 'import sys; sys.exit(sys.version_info < (3, 11))'
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	$$python $(NEW_ENOUGH) 2>/dev/null && echo $$python && break; done)
ARGS ?=

.PHONY: help quickstart test test-rest lint docs setup lock
help:
	@sed -n 's/^#   //p' Makefile

quickstart: .venv/ready
	$(BIN)/cnnpool train -m experiment=quickstart seed=0 fit.pictures=true
	$(BIN)/cnnpool train -m experiment=quickstart
	$(BIN)/cnnpool compare outputs/quickstart/digits --baseline max

# One thread per process: torch's own threads would fight with each other and with the workers.
# Bytecode is written whatever the environment says: hundreds of processes would compile the same files.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(BIN)/python -m pytest
ALL_CORES := -n auto --maxprocesses 8 --dist worksteal

test: .venv/ready
	@$(PYTEST) $(or $(ARGS),$(ALL_CORES) -m 'not rest')

test-rest: .venv/ready
	@$(PYTEST) $(or $(ARGS),$(ALL_CORES) -m rest)

lint: .venv/ready
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/python -m mypy && $(BIN)/vulture

docs: .venv/ready
	@$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going docs build/docs $(ARGS)
	@echo "open build/docs/index.html"

setup: .venv/ready
	@echo "cnnpool: ready in $(CURDIR)/.venv"

lock: .venv/ready
	@$(BIN)/uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes \
		--exclude-newer 2026-11-19 --no-header --quiet --output-file requirements.lock $(ARGS)

# The set-up. A .venv that was moved, lost its Python or holds the other torch is not ready.
STATE := $(strip $(CURDIR) $(CNNPOOL_TORCH))
ifneq ($(STATE),$(shell $(BIN)/python -c 'print(open(".venv/ready").read())' 2>/dev/null))
.PHONY: .venv/ready
endif
# Bytecode now: where Python may not write it (most containers), each start would compile torch again.
INSTALL := $(BIN)/uv pip install --python $(BIN)/python --compile-bytecode
LOCKED := $(INSTALL) --build-constraints requirements.lock --require-hashes --requirements
ifeq ($(CNNPOOL_TORCH),cpu)
# torch's server builds files of its own, which no lock knows: all others are checked, and torch has no further ones.
INSTALL_ALL := $(LOCKED) .venv/others.txt --no-deps && \
	{ $(INSTALL) --torch-backend cpu --no-deps --requirements .venv/torch.txt || \
	{ echo "cnnpool: torch's own server gave no build without CUDA: taking the ordinary one" && \
	$(LOCKED) requirements.lock; }; }
else
INSTALL_ALL := $(LOCKED) requirements.lock
endif
stop = { echo "cnnpool: $(1), then try again" >&2; exit 1; }

.venv/ready: requirements.lock pyproject.toml
	@test -z "$(filter-out cpu,$(CNNPOOL_TORCH))" || $(call stop,CNNPOOL_TORCH=$(CNNPOOL_TORCH) is not cpu: unset it)
# Half a package looks whole to an installer: after an interruption everything is installed anew.
	@! test -e .venv/unfinished || rm -rf .venv
	@test -e .venv || test -n "$(PYTHON)" || $(call stop,Python 3.11 or newer is needed: install one)
	@echo "cnnpool: installing into $(CURDIR)/.venv, some minutes the first time"
	@test -e .venv || { mkdir .venv && touch .venv/unfinished && $(PYTHON) -m venv .venv; }
	@$(BIN)/python $(NEW_ENOUGH) 2>/dev/null || $(call stop,the Python of .venv is broken or below 3.11: remove .venv)
	@touch .venv/unfinished
	@sed -n '/^uv==/,/[^\\]$$/p' requirements.lock > .venv/uv.txt
	@sed -n 's/ *\\$$//; /^torch==/p; /^torchvision==/p' requirements.lock > .venv/torch.txt
	@sed -E '/^(torch|torchvision|triton|nvidia-[^=]+|cuda-[^=]+)==/,/[^\\]$$/d' requirements.lock > .venv/others.txt
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null
	@$(BIN)/python -m pip install --quiet --retries 1 --require-hashes --requirement .venv/uv.txt \
		|| $(call stop,no uv from the package registry: check the network or proxy)
	@echo "cnnpool: downloads, then compiles bytecode; on a slow machine that takes minutes without a word"
	@$(INSTALL_ALL) && $(INSTALL) --no-deps --no-build-isolation --editable . \
		|| $(call stop,the installation failed for the reason above: mend it)
	@$(BIN)/python -m compileall -q cnnpool scripts
	@printf %s "$(STATE)" > $@ && rm .venv/unfinished
