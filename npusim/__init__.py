"""npusim simulates a fixed-point neural processing unit: exact bits and cycles from one tile program."""

from npusim.api import RunResult, evaluate, load_chip, load_tosa, load_workload, run
from npusim.version import VERSION as __version__

__all__ = ["RunResult", "__version__", "evaluate", "load_chip", "load_tosa", "load_workload", "run"]
