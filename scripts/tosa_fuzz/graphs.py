"""Random graphs of all operators of the integer profile, several of them one behind the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from . import elementwise, movement, products
from .choices import Choices
from .products import rescale
from .writer import GraphWriter, RandomGraph

OPERATORS: dict[str, Callable[[GraphWriter], None]] = {
    **elementwise.OPERATORS,
    **movement.OPERATORS,
    **products.OPERATORS,
}
"""By TOSA's name; all but VARIABLE_READ and VARIABLE_WRITE, which the reference model has for no integer type."""

DEEP = (
    *("CONV2D", "CONV3D", "DEPTHWISE_CONV2D", "TRANSPOSE_CONV2D", "MATMUL", "AVG_POOL2D", "RESIZE"),
    *("RESCALE", "RESCALE", "RESCALE"),
)
"""Those with the most to get wrong."""

MOST_OPERATORS = 6


def random_graph(choices: Choices, operators: Sequence[str] = tuple(OPERATORS)) -> RandomGraph:
    """A graph of one to MOST_OPERATORS of ``operators``, and the rescales that 48-bit results need to be seen."""
    g = GraphWriter(choices)
    deep = [name for name in DEEP if name in operators] or operators
    for k in range(MOST_OPERATORS):
        if k and not choices.integer(0, 3):
            break
        OPERATORS[choices.sample(deep if choices.chance(1, 3) else operators)](g)
    read = {v for o in g.operators for v in o.inputs}
    for v in [v for v in g.values if g.dtype(v) == "INT48" and v not in read]:
        rescale(g, v)
    return g.finish()
