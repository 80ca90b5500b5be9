"""The tile program: commands, dependencies, SRAM slots, and the verifier that every program passes."""

from npusim.program.program import Command, Compute, Load, Queue, Ref, Slot, Store, TileProgram

__all__ = ["Command", "Compute", "Load", "Queue", "Ref", "Slot", "Store", "TileProgram"]
