"""What a chip is made of: one unit per file, memories, and the chip that holds them; knows no operator's meaning."""

from npusim.hardware.base import Task, UnitSpec, largest, product
from npusim.hardware.chip import Chip

__all__ = ["Chip", "Task", "UnitSpec", "largest", "product"]
