# Targets of the lab; included by the Makefile of the root.

LAB_PYTHON := .venv/bin/python
LAB_STAMP := .venv/.lab-installed

$(LAB_STAMP): lab/pyproject.toml
	python3 -m venv .venv
	.venv/bin/pip install --quiet --disable-pip-version-check -e 'lab[hosts,test]'
	touch $@

.PHONY: lab lab-test lab-lint lab-quick lab-peers

# The lab itself: afterwards `.venv/bin/zonda-lab` runs.
lab: $(LAB_STAMP)

# The other servers and dnsperf, from Debian.
lab-peers: $(LAB_STAMP)
	.venv/bin/zonda-lab servers --install

# A report in minutes: every published experiment in its small form, on this machine.
lab-quick: $(LAB_STAMP)
	.venv/bin/zonda-lab doctor || true
	.venv/bin/zonda-lab run --quick $(or $(EXPERIMENTS),all)

lab-test: $(LAB_STAMP)
	cd lab && ../$(LAB_PYTHON) -m pytest

lab-lint: $(LAB_STAMP)
	cd lab && ../.venv/bin/ruff check . && ../.venv/bin/ruff format --check . && ../.venv/bin/mypy
