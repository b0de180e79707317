# make report: set up what it needs, run the main job, write report/index.html. Other targets set up what they need as well.
# make check: set up, style, types, layers, fast tests of the folders that have changed (tests/changed.py says which).
# make test: style, types, layers, the fast tests and verdicts of claims.   make test-all: slow and long tests, a
# plain installation, the lowest versions and the site as well.
# make full: register and figures at the full level, figures of every preset, all fits: hours.
# make test-plain: fast tests of what a plain `pip install .` gives, in an environment without extras.
# make test-wheel: the wheel in every Python that is present.   make test-lowest: lowest versions of dependencies.
# make docs: the documentation as a site, build/site/index.html: every cell runs, warnings and broken links are errors.
# make fuzz: attacks with random damage, at most 15 minutes; SEED=2 draws others.
# make planted: plant errors in the claims, one at a time, and count those that a search notices; about an hour.
# make attack: an adversary looks for counterexamples to the claims; SEED=2, CLAIM="insight-a lemma9", MINUTES=60,
# REGISTER=DIR for the claims of a folder.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Extras to install; tests of the transformers need `text` (PyTorch, large) as well, and say so when they skip. The report
# needs none, and keeps those that are installed.
ifeq ($(MAKECMDGOALS),report)
EXTRAS ?= $(shell cat $(VENV)/extras 2>/dev/null)
else
EXTRAS ?= dev,cluster,explore,docs
endif
# Commands and tests start many processes. Each of them would compile all sources again if none kept the bytecode on disk.
unexport PYTHONDONTWRITEBYTECODE
# pip does not compile, since the first import does, and many modules are never imported.
INSTALL := install --quiet --disable-pip-version-check --no-compile

.PHONY: report check test docs fuzz attack planted full test-all test-plain test-wheel test-lowest lint plain-kernels bench setup clean
report: setup
	$(BIN)/snapdyn report --out report

check: lint
	$(BIN)/python -m pytest -q -n auto -m "not slow" $$($(BIN)/python tests/changed.py)

test: setup
	$(MAKE) -j 2 lint plain-kernels
	$(BIN)/python -m pytest -n auto -m "not slow or register"

plain-kernels: setup
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q tests/dynamics -m kernel

fuzz: SEED ?= 1
fuzz: setup
	SNAPDYN_FUZZ=large SNAPDYN_FUZZ_SEED=$(SEED) $(BIN)/python -m pytest -n auto -rP --hypothesis-show-statistics --timeout 900 tests/fuzz

attack: SEED ?= 1
attack: MINUTES ?= 60
attack: setup
	$(BIN)/snapdyn attack $(CLAIM) --seed $(SEED) --minutes $(MINUTES) $(if $(REGISTER),--register $(REGISTER)) \
	    --store $(or $(REGISTER),validation/claims)/counterexamples

planted: setup
	$(BIN)/python tests/planted/plant.py $(FILES)

docs: setup
	rm -rf build/site build/doctrees
	$(BIN)/sphinx-build -q -W --keep-going -j 2 -d build/doctrees docs build/site
	@echo 'The site is build/site/index.html'

test-all: test test-plain test-lowest docs
	$(BIN)/python -m pytest -n auto -m "slow and not register"

full: setup
	$(BIN)/snapdyn validate --level full
	$(BIN)/snapdyn figures --level full --check --out build/figures
	SNAPDYN_EVERY_PRESET=1 $(BIN)/python -m pytest --timeout 3600 tests/figures/test_panels.py
	SNAPDYN_ALL_FITS=1 $(BIN)/python -m pytest -n auto --timeout 7200 tests/validation/fitting/test_whole.py

# Wheel and source distribution: the fast tests of the unpacked source, and docs/first_hour.md, run against the installed
# wheel in each of PYTHONS that is present.
PYTHONS ?= python3.11 python3.12 python3.13
test-wheel: setup
	rm -rf build/dist && $(BIN)/python -m build --outdir build/dist . > build/dist.log && mkdir -p build/source \
	    && tar xzf build/dist/*.tar.gz -C build/source --strip-components 1
	for python in $(PYTHONS); do \
	    $$python --version || continue; rm -rf build/$$python; $$python -m venv build/$$python || exit 1; \
	    build/$$python/bin/pip $(INSTALL) "$$(echo build/dist/*.whl)[dev]" || exit 1; \
	    (cd build/source && ../$$python/bin/python -m pytest -q -n auto -m "not slow") || exit 1; \
	    (cd build/source && ../$$python/bin/python -m pytest -q tests/test_first_hour.py) || exit 1; \
	done

# A plain installation: dependencies alone, and what pytest's options in pyproject.toml need. Tests of an extra skip and say so.
PLAIN_TESTS := $(addprefix tests/,commands/test_check.py commands/test_explore.py commands/test_simulate.py \
    dynamics/traces/test_reading.py dynamics/integration/test_cvode.py)
test-plain:
	rm -rf build/lib build/plain && $(PYTHON) -m venv build/plain
	build/plain/bin/pip $(INSTALL) --constraint constraints.txt . \
	    pytest hypothesis pytest-benchmark pytest-timeout pytest-xdist
	build/plain/bin/python -m pytest -q -n auto -rs -m "not slow" $(PLAIN_TESTS)

# The lowest versions of dependencies that setup.cfg allows.
test-lowest:
	rm -rf build/lib build/lowest && $(PYTHON) -m venv build/lowest
	build/lowest/bin/pip $(INSTALL) --constraint constraints-lowest.txt '.[dev]'
	build/lowest/bin/python -m pytest -q -n auto -m "not slow"

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p snapdyn
	$(BIN)/lint-imports

bench: setup
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest benchmarks --benchmark-enable --benchmark-disable-gc -s

setup: $(VENV)/installed
ifneq ($(EXTRAS),$(shell cat $(VENV)/extras 2>/dev/null))
.PHONY: $(VENV)/installed
endif
$(VENV)/installed: setup.cfg pyproject.toml constraints.txt
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	@echo 'Setting up $(VENV) ...'; $(BIN)/python -m pip $(INSTALL) --constraint constraints.txt \
	    --editable '.$(if $(EXTRAS),[$(EXTRAS)])'
	@echo '$(EXTRAS)' > $(VENV)/extras
	@touch $@

clean:
	rm -rf $(VENV) build report out *.egg-info
