# What can be done here. `make` alone lists the targets.

PREFIX ?= /usr/local
DESTDIR ?=
INTO = $(DESTDIR)$(PREFIX)
FUZZ_SECONDS ?= 60
SEEDS ?= 3000

ZONDA = target/release/zonda
LOAD = target/release/zonda-load
MANUAL = packaging/man
COMPLETIONS = packaging/completions
# Processes that run the tests in Python. Most tests wait more than they compute.
TEST_PROCESSES ?= 3
# Threads of each test program in Rust: most of its tests wait, too.
TEST_THREADS ?= 6
PYTEST = ../$(VENV)/bin/python -m pytest -n $(TEST_PROCESSES) --dist worksteal
# The Python of this project, with what its parts need; made on first use.
VENV = .venv
PYTHON_PARTS = $(wildcard lab/pyproject.toml interop/requirements.txt attack/requirements.txt)

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

run: release ## build, serve examples/ on 127.0.0.1:5300
	@echo
	@echo "Serving examples/ on 127.0.0.1:5300. In another terminal, type:"
	@echo
	@echo "  dig @127.0.0.1 -p 5300 www.example.com A          (kdig and drill do as well)"
	@echo "  dig @127.0.0.1 -p 5300 any.pages.example.com A    (a wildcard)"
	@echo "  dig @127.0.0.1 -p 5300 www.old.example.com A      (a DNAME)"
	@echo "  dig @127.0.0.1 -p 5300 example.com AXFR"
	@echo "  $(ZONDA) reload --config examples/zonda.toml      (after a change in examples/zones)"
	@echo
	@echo "Ctrl-C stops."
	@echo
	@$(ZONDA) serve --config examples/zonda.toml

release: ## build the programs for use
	cargo build --release --locked
	touch $(ZONDA) $(LOAD)

test: ## all tests, and at the end what was skipped
	@.ci/count-skips $(MAKE) --no-print-directory test-rust test-python

test-rust: ## the tests in Rust
	RUST_TEST_THREADS=$(TEST_THREADS) cargo test --workspace --locked

test-python: $(VENV)/ready ## the tests of the lab and of the comparison with other servers, and its short form
	cargo build -p zonda-server -p zonda-load --locked
	if [ -d lab/tests ]; then cd lab && PATH="$(CURDIR)/target/debug:$$PATH" $(PYTEST); fi
	if [ -d interop/tests ]; then cd interop && $(PYTEST) -q -rs tests; fi
	if [ -d interop ]; then $(VENV)/bin/python interop/run.py --quick; fi
	cd attack && $(PYTEST) -m "not slow"

lint: $(VENV)/ready ## format, clippy, documentation, Python
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
	$(VENV)/bin/ruff check --exclude $(VENV) .
	if [ -f lab/pyproject.toml ]; then cd lab && ../$(VENV)/bin/mypy; fi

test-clean-root: ## `make run` and `make test` in a bare Debian (root, debootstrap); before a release
	.ci/clean-root

bench: ## instruction counts and sizes, compared with the committed figures
	python3 bench/figures.py

bench-load: release ## CPU time of zonda-load and dnsperf for an answered query, side by side
	python3 bench/load.py

bench-memory: release ## memory and load time of a signed TLD, beside NSD and Knot where they are installed
	python3 bench/memory.py

bench-transfers: release ## transfers, restart and updates of a zone of 2.2 M records, as tables
	python3 bench/transfers.py

bench-beside: release ## UDP and open connections beside hostile clients and AXFR: latency, memory, what stays; five minutes
	python3 bench/beside.py

scale: release ## a secondary of 1,000,000 zones: arrival, memory, refresh, NOTIFY, stop; some minutes
	python3 bench/scale.py

fuzz: ## each fuzz target for FUZZ_SECONDS
	@if ! cargo fuzz --version >/dev/null 2>&1; then echo "cargo-fuzz is missing: cargo install cargo-fuzz"; exit 1; fi
	cd fuzz && python3 seeds.py
	for target in $$(cargo +nightly fuzz list); do \
		cargo +nightly fuzz run $$target -- -max_total_time=$(FUZZ_SECONDS) || exit 1; \
	done

simulate: ## primaries and secondaries in simulated time, on networks, clocks, disks and machines that fail: SEEDS runs; 3000 take 17 minutes of processor time
	SEEDS=$(SEEDS) cargo test -p zonda-server --lib --locked -- --nocapture simulation

miri: ## names, messages and the tree under Miri (rustup +nightly component add miri), some minutes
	MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test -p zonda-wire -- --skip tsig
	MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test -p zonda-zone --test tree

loom: ## publication under loom: every interleaving of a publisher and two readers with up to 3 preemptions
	LOOM_MAX_PREEMPTIONS=3 RUSTFLAGS="--cfg loom" cargo test -p zonda-answer --lib --target-dir target/loom -- loom_tests

interop: release $(VENV)/ready ## compare answers, and test transfers, with NSD, Knot and BIND
	ZONDA=$(ZONDA) $(VENV)/bin/python interop/run.py
	ZONDA=$(ZONDA) $(VENV)/bin/python interop/run_transfers.py

attack: release $(VENV)/ready ## attack the running server in every way that once did harm
	cd attack && ZONDA=../$(ZONDA) ../$(VENV)/bin/python -m pytest

man: ## write the generated manual pages, completions and reference anew
	cargo build -p zonda-server --locked
	mkdir -p $(MANUAL) $(COMPLETIONS)
	for page in $$(target/debug/zonda man --list); do target/debug/zonda man $$page > $(MANUAL)/$$page || exit 1; done
	target/debug/zonda man --markdown > docs/manual/zonda.toml.md
	target/debug/zonda check --list > docs/manual/checks.md
	target/debug/zonda tune --list > docs/manual/tuning.md
	for shell in bash zsh fish; do target/debug/zonda completions $$shell > $(COMPLETIONS)/zonda.$$shell || exit 1; done

tune-evidence: ## copy the figures that `zonda tune` quotes from lab/records, then write the manual anew
	UPDATE_EVIDENCE=1 cargo test -p zonda-tune --test evidence --locked the_figures_are_those_of_the_committed_records
	$(MAKE) --no-print-directory man

install: $(ZONDA) ## install into PREFIX (/usr/local); without cargo, as with sudo, after `make release`
	install -D -m 755 -t $(INTO)/bin $(ZONDA) $(LOAD)
	install -D -m 644 packaging/zonda.service $(INTO)/lib/systemd/system/zonda.service
	sed -i 's|/usr/local|$(PREFIX)|' $(INTO)/lib/systemd/system/zonda.service
	install -D -m 644 packaging/zonda.sysusers $(INTO)/lib/sysusers.d/zonda.conf
	for page in $(MANUAL)/*.[15]; do \
		install -D -m 644 $$page $(INTO)/share/man/man$${page##*.}/$${page##*/} || exit 1; \
	done
	$(LOAD) man $(INTO)/share/man/man1
	install -D -m 644 $(COMPLETIONS)/zonda.bash $(INTO)/share/bash-completion/completions/zonda
	install -D -m 644 $(COMPLETIONS)/zonda.zsh $(INTO)/share/zsh/site-functions/_zonda
	install -D -m 644 $(COMPLETIONS)/zonda.fish $(INTO)/share/fish/vendor_completions.d/zonda.fish
	install -D -m 644 -t $(INTO)/share/doc/zonda LICENSE CHANGELOG.md packaging/zonda.toml packaging/zonda.rules.yml

uninstall: ## remove what `make install` has installed; configuration, state-dir and user stay
	cd $(INTO) && rm -f bin/zonda bin/zonda-load lib/systemd/system/zonda.service lib/sysusers.d/zonda.conf \
		share/man/man1/zonda.1 share/man/man1/zonda-*.1 share/man/man5/zonda.toml.5 \
		share/bash-completion/completions/zonda share/zsh/site-functions/_zonda share/fish/vendor_completions.d/zonda.fish
	rm -rf $(INTO)/share/doc/zonda

# Built again only if a source is newer, so that `sudo make install` needs no cargo.
$(ZONDA): Cargo.lock $(shell find crates -name '*.rs' -o -name '*.toml')
	$(MAKE) --no-print-directory release

$(VENV)/ready: $(PYTHON_PARTS)
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install --quiet ruff pytest pytest-xdist
	if [ -f lab/pyproject.toml ]; then $(VENV)/bin/pip install --quiet --editable 'lab[hosts,test]'; fi
	if [ -f interop/requirements.txt ]; then $(VENV)/bin/pip install --quiet --requirement interop/requirements.txt; fi
	if [ -f attack/requirements.txt ]; then $(VENV)/bin/pip install --quiet --requirement attack/requirements.txt; fi
	touch $@

include lab/lab.mk

.PHONY: help run release test test-rust test-python test-clean-root lint bench bench-load bench-memory bench-transfers bench-beside scale fuzz simulate miri loom interop attack man tune-evidence install uninstall
