# make report: set up, run the main job, write report/index.html.   make test: set up, run every check and test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ROOMS := app analytic dynamics validation figures
SOURCES := $(sort $(shell find $(ROOMS) -type f -not -path '*/__pycache__/*'))
LIST := $(VENV)/source-list

.PHONY: report test check bench setup clean FORCE
setup: $(VENV)/installed

report: setup
	$(BIN)/snapdyn report --out report

test: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p snapdyn
	$(BIN)/lint-imports
	$(BIN)/python -m pytest
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -m kernel

bench: setup
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest benchmarks --benchmark-enable --benchmark-disable-gc -s

# A strict editable install links file by file, so it is made again when a file is added, removed or renamed.
$(LIST): FORCE
	@$(PYTHON) -m venv $(VENV) --without-pip 2>/dev/null || true
	@mkdir -p $(VENV); echo '$(SOURCES)' | cmp -s - $@ || echo '$(SOURCES)' > $@

$(VENV)/installed: $(LIST) setup.cfg pyproject.toml constraints.txt
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
	    --config-settings editable_mode=strict --editable '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) build report *.egg-info
