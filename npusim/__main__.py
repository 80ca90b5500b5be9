"""``python -m npusim``."""

from npusim.cli import main

main()
