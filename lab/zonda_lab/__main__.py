"""`python -m zonda_lab` is `zonda-lab`."""

from zonda_lab.command.cli import main

raise SystemExit(main())
