"""From regions to a tile program: tiles, loop order, residency, addresses, commands."""
