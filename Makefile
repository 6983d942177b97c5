# What can be done here. `make` alone lists the targets.

PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 60
ZONDA = target/release/zonda
MANUAL = packaging/man
COMPLETIONS = packaging/completions

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

run: release ## build, serve examples/ on 127.0.0.1:5300
	@echo
	@echo "Serving examples/ on 127.0.0.1:5300. In another terminal, type:"
	@echo
	@echo "  dig @127.0.0.1 -p 5300 www.example.com A        (kdig and drill will do as well)"
	@echo "  dig @127.0.0.1 -p 5300 any.pages.example.com A"
	@echo "  dig @127.0.0.1 -p 5300 example.com AXFR"
	@echo "  $(ZONDA) reload --config examples/zonda.toml     after a change of examples/zones"
	@echo
	@echo "Ctrl-C stops."
	@echo
	@$(ZONDA) serve --config examples/zonda.toml

release: ## build the programs for use
	cargo build --release --locked

test: ## all tests
	cargo test --workspace --locked
	@if [ -d lab ]; then $(MAKE) --no-print-directory test-lab; fi
	@if [ -d interop ]; then python3 interop/run.py --quick; fi

lint: ## format, clippy, documentation, Python
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
	@if command -v ruff >/dev/null; then ruff check .; else echo "ruff is not installed: Python is not checked"; fi

bench: ## instruction counts and sizes, compared with the committed figures
	cargo bench --workspace --locked

fuzz: ## each fuzz target for FUZZ_SECONDS
	@if ! cargo fuzz --version >/dev/null 2>&1; then echo "cargo-fuzz is not installed: cargo install cargo-fuzz"; exit 1; fi
	@for target in $$(cargo +nightly fuzz list); do \
		cargo +nightly fuzz run $$target -- -max_total_time=$(FUZZ_SECONDS) || exit 1; \
	done

interop: release ## compare answers with NSD, Knot and BIND
	python3 interop/run.py

man: ## write the generated manual pages, completions and reference anew
	cargo build -p zonda-server
	mkdir -p $(MANUAL) $(COMPLETIONS)
	for page in $$(target/debug/zonda man --list); do target/debug/zonda man $$page > $(MANUAL)/$$page; done
	target/debug/zonda man --markdown > docs/manual/zonda.toml.md
	for shell in bash zsh fish; do target/debug/zonda completions $$shell > $(COMPLETIONS)/zonda.$$shell; done

install: release ## install into PREFIX (/usr/local)
	install -D -m 755 $(ZONDA) $(DESTDIR)$(PREFIX)/bin/zonda
	for page in $(MANUAL)/*.[15]; do \
		install -D -m 644 $$page $(DESTDIR)$(PREFIX)/share/man/man$${page##*.}/$$(basename $$page) || exit 1; \
	done
	install -D -m 644 $(COMPLETIONS)/zonda.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/zonda
	install -D -m 644 $(COMPLETIONS)/zonda.zsh $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_zonda
	install -D -m 644 $(COMPLETIONS)/zonda.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/zonda.fish

.PHONY: help run release test lint bench fuzz interop man install
