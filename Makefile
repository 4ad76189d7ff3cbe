# `make` lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FIGURE ?= all
SEEDS ?= 10
ONLY ?=
CLIENTS ?= 1000000
PARTICIPANTS ?= 1000
SIZES ?= 20,100,1000,10000
PEERS ?=
SITES ?= 5
REPEATS ?= 5
NODES ?= 5,20
MINUTES ?= 10
PDF ?= proofs.pdf

.PHONY: help demo demo-deploy test test-all test-slow test-deploy soak check lint types imports browser bench bench-growth bench-limit \
	bench-scale bench-hosts bench-throughput bench-peers bench-deploy audit utility defaults reproduce compare figures \
	proofs-pdf clean
help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 18

$(VENV)/.installed: pyproject.toml constraints.txt $(wildcard src/fedspd/problem/fast/*.[ch])
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --group dev
	touch $@

demo: $(VENV)/.installed ## train FedSPD-DP on Adult under a budget; summary, figure, run folder
	$(BIN)/fedspd run

demo-deploy: $(VENV)/.installed-dev ## train between a server and five sites of this machine, with TLS (SITES=5)
	$(BIN)/python scripts/demo_deploy.py --sites $(SITES)

test: $(VENV)/.installed-dev ## run the tests of every promise, in minutes
	$(BIN)/pytest --numprocesses auto --dist worksteal

test-all: test ## and then the slow ones: statistics, browser, crashes, studies, every method compiled
	$(BIN)/pytest -m slow --numprocesses auto --dist worksteal

test-slow: $(VENV)/.installed-dev ## the slow ones but for those of a quarter of a minute and more, as CI runs them
	$(BIN)/pytest -m "slow and not lengthy" --numprocesses auto --dist worksteal

test-deploy: $(VENV)/.installed-dev ## faults of a deployment, with real processes (ONLY="-k ten_rounds" for a part)
	$(BIN)/pytest -m deploy tests/deploy tests/test_packaging.py --durations=0 $(ONLY)

soak: MINUTES = 20
soak: $(VENV)/.installed-dev ## random configurations against other ways to the same numbers, kills included (MINUTES=20)
	$(BIN)/python -m tests.soak --minutes $(MINUTES)

check: lint types imports test-all ## lint, types, imports and all tests but those of deployments

lint: $(VENV)/.installed-dev ## style
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.installed-dev ## static types
	$(BIN)/basedpyright

imports: $(VENV)/.installed-dev ## imports point down
	$(BIN)/lint-imports

browser: ## install Chromium for the browser tests, where Debian's packages can be installed
	@if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then echo "Chromium is there."; \
	elif ! command -v apt-get >/dev/null; then echo "No apt-get here: install chromium and chromedriver yourself."; \
	elif [ "$$(id -u)" != 0 ]; then echo "Only root can install Debian's packages: chromium, chromium-driver."; \
	else apt-get update --quiet && DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends \
		chromium chromium-driver || echo "Debian's packages could not be installed: the browser tests will be skipped."; fi

bench: $(VENV)/.installed-dev ## time the paper's run and 10,000 clients, against the committed figures
	$(BIN)/python benchmarks/speed.py
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/ratios.py

bench-limit: $(VENV)/.installed-dev ## time of a round against the roofline of this machine (SIZES=20,100,1000,10000)
	$(BIN)/python benchmarks/limit.py --sizes $(SIZES)

bench-scale: $(VENV)/.installed ## seconds and memory by the number of clients, with a law beyond what is measured (CLIENTS=1000000)
	$(BIN)/python benchmarks/scale.py --clients $(CLIENTS)

bench-hosts: $(VENV)/.installed-dev ## one run over two processes on a loopback, against one (PARTICIPANTS=1000, REPEATS=5)
	$(BIN)/python benchmarks/hosts.py --participants $(PARTICIPANTS) --repeats $(REPEATS)

bench-growth: $(VENV)/.installed-dev ## how the time of a run grows with its sizes: K, N, m, d, Q, T (REPEATS=5)
	$(BIN)/python benchmarks/growth.py --repeats $(REPEATS)

bench-throughput: $(VENV)/.installed-dev ## compiled runs per second of a sweep (SEEDS=10 for each of 21 points)
	$(BIN)/python benchmarks/throughput.py --seeds $(SEEDS)

bench-peers: $(VENV)/.installed-dev ## the same job on other frameworks, each in an environment of its own (PEERS="--only pfl")
	$(BIN)/python benchmarks/peers.py $(PEERS)

bench-deploy: $(VENV)/.installed-dev ## seconds of a round and bytes between processes, beside Flower's own empty app (NODES=5,20)
	$(BIN)/python benchmarks/deploy.py --sizes $(NODES)

audit: $(VENV)/.installed-dev ## attack every claim; with ten minutes or more docs/audit.md is written anew (MINUTES=10)
	$(BIN)/python -m benchmarks.audit --minutes $(MINUTES)

utility: $(VENV)/.installed ## accuracy on Adult at end-to-end budgets, with standard errors (SEEDS=10)
	$(BIN)/python benchmarks/utility.py --seeds $(SEEDS) $(ONLY)

defaults: $(VENV)/.installed ## do the defaults hold on every data set, for few clients and many? (SEEDS=10, ONLY="--only adult" for a part)
	$(BIN)/python -m benchmarks.defaults run --seeds $(SEEDS) $(ONLY)
	$(BIN)/python -m benchmarks.defaults check --seeds $(SEEDS)

reproduce: $(VENV)/.installed ## rerun the paper's figures and test its claims (FIGURE=all, SEEDS=10)
	$(BIN)/fedspd reproduce $(FIGURE) --seeds $(SEEDS)

compare: $(VENV)/.installed ## all methods at equal privacy (SEEDS=10, ONLY="--deal iid" for a part)
	$(BIN)/fedspd compare --seeds $(SEEDS) $(ONLY)

figures: $(VENV)/.installed ## draw the README's figure
	$(BIN)/python scripts/draw_readme_figure.py

proofs-pdf: $(VENV)/.installed-dev ## docs/proofs.md and the pages beside it as one PDF for a referee (PDF=proofs.pdf)
	$(BIN)/python scripts/proofs_pdf.py $(PDF)

clean: ## remove what make made
	rm -rf $(VENV) runs proofs.pdf
