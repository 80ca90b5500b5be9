"""The TOSA flatbuffer: bytes to frozen records and back, constants to numpy arrays and back, records to a graph."""

from npusim.frontends.tosa.constants import decode_constant, encode_constant
from npusim.frontends.tosa.convert import load_tosa, to_graph
from npusim.frontends.tosa.reader import read_tosa
from npusim.frontends.tosa.records import TosaBlock, TosaFile, TosaOperator, TosaRegion, TosaShape, TosaTensor
from npusim.frontends.tosa.writer import write_tosa

__all__ = [
    "TosaBlock",
    "TosaFile",
    "TosaOperator",
    "TosaRegion",
    "TosaShape",
    "TosaTensor",
    "decode_constant",
    "encode_constant",
    "load_tosa",
    "read_tosa",
    "to_graph",
    "write_tosa",
]
