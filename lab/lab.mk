# Targets of the lab, included by the Makefile of the root, which makes $(VENV).

LAB = $(VENV)/bin/zonda-lab
# What each server costs, loses, holds and hands out, and how soon it is there: minutes. `all` is everything.
EXPERIMENTS ?= E1 E7 E10 E21 E27 E28
SERVERS ?=
# Where `make lab-records` measures: it goes on with what is there, so remove that to begin anew.
RECORDING ?= results/records

lab: lab-ready ## a report that compares the DNS servers of this machine, in minutes (EXPERIMENTS=all, or "E1 E12"; SERVERS=nsd,knot)
	@$(LAB) servers
	@$(LAB) doctor || echo "The machine is not quite fit (see above): windows that suffer from it will be marked invalid."
	@$(LAB) run --quick $(if $(SERVERS),--servers $(SERVERS)) $(EXPERIMENTS) || [ $$? -eq 1 ]

lab-ready: $(VENV)/ready
	cargo build --release --locked -p zonda-server -p zonda-load

lab-peers: $(VENV)/ready ## install the other servers and dnsperf from Debian
	$(LAB) servers --install

lab-records: lab-ready ## measure E1 to E20 anew on a quiet machine, and write lab/records
	$(LAB) run $(if $(wildcard $(RECORDING)/manifest.json),--resume,--quick --set timing.blocks=5 --out) $(RECORDING) E1-E20
	$(LAB) keep $(RECORDING) lab/records

lab-lint: $(VENV)/ready ## ruff and mypy of the lab
	cd lab && ../$(VENV)/bin/ruff check . && ../$(VENV)/bin/ruff format --check . && ../$(VENV)/bin/mypy

.PHONY: lab lab-ready lab-peers lab-records lab-lint
