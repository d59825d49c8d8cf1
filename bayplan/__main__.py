"""``python -m bayplan`` is the command ``bayplan``."""

from bayplan.cli import main

main()
