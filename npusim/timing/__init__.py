"""When every command of a tile program runs: a discrete-event model in simpy, one event per command."""

from npusim.timing.simulator import simulate
from npusim.timing.timeline import Span, Timeline

__all__ = ["Span", "Timeline", "simulate"]
