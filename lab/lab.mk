# Targets of the lab, included by the Makefile of the root, which makes $(VENV).

LAB = $(VENV)/bin/zonda-lab
# Rates, memory, transfers and start-up, in minutes, without a capture. `all` runs every experiment.
EXPERIMENTS ?= E1 E7 E10 E27 E28
SERVERS ?= installed
# Results folder of `make lab-records`; an existing one is resumed, so remove it to start again.
RECORDING ?= results/records

lab: lab-ready ## a report that compares the DNS servers of this machine, in minutes (EXPERIMENTS=all, or "E1 E12"; SERVERS=nsd,knot)
	@$(LAB) servers
	@$(LAB) doctor || echo "This machine is not fully fit (see above); affected windows will be marked invalid."
	@$(LAB) run --quick --servers $(SERVERS) $(EXPERIMENTS) || [ $$? -eq 1 ]

lab-ready: $(VENV)/ready
	cargo build --release --locked -p zonda-server -p zonda-load

lab-peers: $(VENV)/ready ## install the other servers and dnsperf from Debian
	$(LAB) servers --install

lab-records: lab-ready ## measure E1 to E21, E24, E25, E28 and E30 to E35 in their full form, on an idle machine, and write lab/records (at most eight hours; resumes; clean tree)
	$(LAB) run $(if $(wildcard $(RECORDING)/manifest.json),--resume $(RECORDING),--out $(RECORDING) E1-E21 E24 E25 E28 E30-E35)
	$(LAB) keep $(RECORDING) lab/records

lab-lint: $(VENV)/ready ## ruff and mypy of the lab
	cd lab && ../$(VENV)/bin/ruff check . && ../$(VENV)/bin/ruff format --check . && ../$(VENV)/bin/mypy

.PHONY: lab lab-ready lab-peers lab-records lab-lint
