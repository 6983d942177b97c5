# Targets of the lab, included by the Makefile of the root, which makes $(VENV).

LAB = $(VENV)/bin/zonda-lab
EXPERIMENTS ?= all

lab: $(VENV)/ready ## a report that compares the DNS servers of this machine (EXPERIMENTS="E1 E7" for some)
	$(LAB) doctor || true
	$(LAB) run --quick $(EXPERIMENTS)

lab-peers: $(VENV)/ready ## install the other servers and dnsperf from Debian
	$(LAB) servers --install

lab-lint: $(VENV)/ready ## ruff and mypy of the lab
	cd lab && ../$(VENV)/bin/ruff check . && ../$(VENV)/bin/ruff format --check . && ../$(VENV)/bin/mypy

.PHONY: lab lab-peers lab-lint
