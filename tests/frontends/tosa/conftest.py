"""TOSA files for the tests: a small one of every kind of record, and files written field by field to be wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import flatbuffers
import pytest

from npusim.frontends.tosa import TosaBlock, TosaFile, TosaOperator, TosaRegion, TosaShape, TosaTensor, schema
from npusim.frontends.tosa.flatbuffer import write_table

SHARED = Path(__file__).resolve().parents[4] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference data beside the repository; tests that need it are skipped without it."""
    if not SHARED.is_dir():
        pytest.skip("the reference data beside the repository is absent")
    return SHARED


@pytest.fixture(scope="session")
def sample() -> TosaFile:
    """Records of every kind, with values that differ from the defaults."""
    tensors = [
        TosaTensor("x", (1, 4, 4, 2), "INT8"),
        TosaTensor("weight", (3, 1, 1, 2), "INT4", bytes.fromhex("2ae309")),
        TosaTensor("bias", (3,), "INT32", bytes(range(12))),
        TosaTensor("zero", (1,), "INT8", b"\0"),
        TosaTensor("sum", (1, 4, 4, 3), "INT32"),
        TosaTensor("wide", (2,), "INT48", bytes(range(12))),
        TosaTensor("state", (1,), "INT16", b"\7\0", is_variable=True, variable_name="net/state"),
        TosaTensor("y", (1, 48), "INT8"),
    ]
    convolution = {
        "pad": (1, 2, 3, 4),
        "stride": (2, 1),
        "dilation": (1, 3),
        "local_bound": True,
        "acc_type": "INT32",
    }
    rescale = {
        "scale32": True,
        "rounding_mode": "DOUBLE_ROUND",
        "per_channel": True,
        "input_unsigned": False,
        "output_unsigned": True,
    }
    operators: list[tuple[str, dict[str, Any], tuple[str, ...], tuple[str, ...]]] = [
        ("CONST", {}, (), ("weight",)),
        ("CONST_SHAPE", {}, (), ("flat",)),
        ("CONV2D", convolution, ("x", "weight", "bias", "zero", "zero"), ("sum",)),
        ("RESCALE", rescale, ("sum",), ("small",)),
        ("CLAMP", {"min_val": b"\x80", "max_val": b"\x7f", "nan_mode": "PROPAGATE"}, ("small",), ("clamped",)),
        ("TRANSPOSE", {"perms": (0, 2, 1)}, ("clamped",), ("turned",)),
        ("VARIABLE_READ", {}, ("state",), ("old",)),
        ("COND_IF", {"then_graph": "body", "else_graph": "main"}, ("old",), ("new",)),
        (
            "CUSTOM",
            {"operator_name": "größe", "domain_name": "d", "implementation_attrs": b"\1\2"},
            ("new",),
            ("z",),
        ),
        ("RESHAPE", {}, ("turned", "flat"), ("y",)),
    ]
    block = TosaBlock(
        "main",
        tuple(TosaOperator(*operator, index) for index, operator in enumerate(operators)),
        {tensor.name: tensor for tensor in tensors},
        {"flat": TosaShape("flat", (1, -(2**40))), "scalar": TosaShape("scalar", ())},
        ("x",),
        ("y",),
    )
    body = TosaBlock("body", (), {}, {}, (), ())
    return TosaFile((1, 1, 0, True), (TosaRegion("main", (block,)), TosaRegion("body", (body,))))


def _graph_file(
    tensors: Sequence[Mapping[str, Any]] = (),
    shapes: Sequence[Mapping[str, Any]] = (),
    operators: Sequence[Mapping[str, Any]] = (),
    version: Mapping[str, Any] = MappingProxyType({}),
    features: int = 0,
) -> bytes:
    builder = flatbuffers.Builder()

    def tables(fields: Any, entries: Sequence[Mapping[str, Any]]) -> list[int]:
        return [write_table(builder, fields, entry, "an entry") for entry in entries]

    block = {
        "operators": tables(schema.OPERATOR, operators),
        "tensors": tables(schema.TENSOR, tensors),
        "shapes": tables(schema.SHAPE, shapes),
    }
    region = {"blocks": tables(schema.BLOCK, [block])}
    fields: dict[str, Any] = {"regions": tables(schema.REGION, [region])}
    (fields["version"],) = tables(schema.VERSION, [{"major": 1, "minor": 0, **version}])
    (fields["compatibility"],) = tables(schema.COMPATIBILITY, [{"features": features}])
    builder.Finish(write_table(builder, schema.GRAPH, fields, "the graph"), b"TOSA")
    return bytes(builder.Output())


@pytest.fixture(scope="session")
def graph_file() -> Callable[..., bytes]:
    """Makes a file of one block from the schema's fields of its tensors, shapes, operators and version."""
    return _graph_file
