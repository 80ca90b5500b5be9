"""Counts of actions times a table of costs: the energy of a program on a chip, and the chip's area."""

from npusim.energy.energy import Actions, area, layer_actions, layer_energy, priced

__all__ = ["Actions", "area", "layer_actions", "layer_energy", "priced"]
