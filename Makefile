# Thin doors to scripts/dev.py, which does the same where there is no make.
PYTHON ?= $(or $(shell command -v python3 || command -v python),$(error Python 3.11 or newer is needed))
ARGS ?=

.PHONY: help quickstart test lint setup lock
help quickstart test lint setup lock:
	@$(PYTHON) scripts/dev.py $@ $(ARGS)
