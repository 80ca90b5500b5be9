"""Reading TOSA files: what is refused with which words, and that no bytes whatever do anything else."""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from npusim.errors import FileFormatError
from npusim.frontends.tosa import TosaFile, decode_constant, read_tosa, schema, write_tosa

GraphFile = Callable[..., bytes]
OPERATOR = {name: number for number, name in enumerate(schema.OPERATORS)}
INT8 = schema.DTYPES.index("INT8")


def read(data: bytes) -> TosaFile:
    return read_tosa(data, "net.tosa")


def test_the_block_that_was_written(graph_file: GraphFile) -> None:
    operator = {"op": OPERATOR["ADD"], "attribute_type": OPERATOR["ADD"], "inputs": ["a", "a"], "outputs": ["b"]}
    data = graph_file([{"name": "a", "type": INT8, "shape": [2, -1]}], [], [operator], {"patch": 3, "draft": False})
    file = read(data)
    block = file.regions[0].blocks[0]
    assert file.version == (1, 0, 3, False)
    assert (block.tensors["a"].shape, block.tensors["a"].dtype, block.tensors["a"].data) == ((2, -1), "INT8", None)
    add = block.operators[0]
    assert (add.name, dict(add.attributes), add.inputs, add.outputs, add.index) == ("ADD", {}, ("a", "a"), ("b",), 0)


def test_an_operator_without_attributes_has_their_defaults(graph_file: GraphFile) -> None:
    data = graph_file(operators=[{"op": OPERATOR["RESCALE"], "outputs": ["y"]}, {"op": OPERATOR["CONV2D"]}])
    rescale, convolution = read(data).regions[0].blocks[0].operators
    assert dict(rescale.attributes) == {
        "scale32": False,
        "rounding_mode": "UNKNOWN",
        "per_channel": False,
        "input_unsigned": False,
        "output_unsigned": False,
    }
    assert convolution.attributes["pad"] == ()


def test_constants_are_views_of_the_file(sample: TosaFile) -> None:
    data = write_tosa(sample)
    constant = read(data).regions[0].blocks[0].tensors["bias"].data
    assert isinstance(constant, memoryview)
    assert constant.obj is data


def test_accesses_to_variables_that_mlir_calls_identity(graph_file: GraphFile) -> None:
    names = ("VARIABLE_READ", "VARIABLE_WRITE")
    operators = [{"op": OPERATOR["IDENTITY"], "attribute_type": OPERATOR[name]} for name in names]
    assert [operator.name for operator in read(graph_file(operators=operators)).regions[0].blocks[0].operators] == [
        *names
    ]


def test_bytes_behind_the_flatbuffer(graph_file: GraphFile) -> None:
    tensor = {"name": "big", "type": INT8, "shape": [3], "offset": 2000, "size": 3}
    data = graph_file([tensor]).ljust(2000, b"\0") + b"\1\2\3"
    assert read(data).regions[0].blocks[0].tensors["big"].data == b"\1\2\3"
    with pytest.raises(FileFormatError, match=r"byte 2000: .*tensors\[0\]\.offset: 3 bytes from there reach outside"):
        read(data[:-1])


def test_a_scalar_shape_may_carry_a_filler(graph_file: GraphFile) -> None:
    assert read(graph_file(shapes=[{"name": "s", "data": bytes(8)}])).regions[0].blocks[0].shapes["s"].values == ()


BLOCK = r"net\.tosa: byte \d+: graph\.regions\[0\]\.blocks\[0\]"


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        ({"type": 0}, r"tensor 't' has the unknown element type number 0 \(1\.\.18 are known\); .*1\.0 or 1\.1"),
        ({"type": 19}, "tensor 't' has the unknown element type number 19"),
        ({"scale_type": 16}, "tensor 't' is block-scaled; export it with integer elements"),
        ({"is_unranked": True}, "tensor 't' has no rank; fix all shapes before exporting"),
        ({"shape": [1] * 33}, "tensor 't' has rank 33, and TOSA allows 32 at most; reshape it"),
        ({"name": ""}, "its name '' is empty or taken; give each tensor and shape of a block its own name"),
        ({"name": "twin"}, "its name 'twin' is empty or taken"),
    ],
)
def test_refused_tensors(graph_file: GraphFile, tensor: dict[str, object], message: str) -> None:
    tensors = [{"name": "twin", "type": INT8}, {"name": "t", "type": INT8, **tensor}]
    with pytest.raises(FileFormatError, match=rf"{BLOCK}\.tensors\[1\]: {message}"):
        read(graph_file(tensors))


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ({"rank": 2}, "shape 's' is not constant; fix all shapes before exporting"),
        ({"rank": 2, "data": bytes(15)}, "shape 's' of rank 2 wants 16 bytes, 15 are given; .*damaged"),
        ({"rank": 2**32 - 1, "data": bytes(8)}, "shape 's' of rank 4294967295 wants 34359738360 bytes, 8 are given"),
        ({"name": "t"}, "its name 't' is empty or taken"),
    ],
)
def test_refused_shapes(graph_file: GraphFile, shape: dict[str, object], message: str) -> None:
    with pytest.raises(FileFormatError, match=rf"{BLOCK}\.shapes\[0\]: {message}"):
        read(graph_file([{"name": "t", "type": INT8}], [{"name": "s", **shape}]))


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        ({"op": 0}, "the operator with output 'y' has the unknown operator number 0"),
        (
            {"op": 101},
            r"the operator with output 'y' has the unknown operator number 101 \(1\.\.100 are known\); export",
        ),
        ({"op": 101, "outputs": []}, "the operator without outputs has the unknown operator number 101"),
        ({"op": OPERATOR["ADD"], "attribute_type": 101}, "output 'y', ADD, has the unknown attribute number 101"),
        ({"op": OPERATOR["ADD"], "attribute_type": OPERATOR["SUB"]}, "output 'y', ADD, has the attributes of SUB"),
        ({"op": OPERATOR["IDENTITY"], "attribute_type": OPERATOR["SUB"]}, "IDENTITY, has the attributes of SUB"),
    ],
)
def test_refused_operators(graph_file: GraphFile, operator: dict[str, object], message: str) -> None:
    with pytest.raises(FileFormatError, match=rf"{BLOCK}\.operators\[0\]: .*{message}"):
        read(graph_file(operators=[{"outputs": ["y"], **operator}]))


@pytest.mark.parametrize(("major", "minor"), [(0, 80), (2, 0), (-1, 0)])
def test_another_major_version(graph_file: GraphFile, major: int, minor: int) -> None:
    message = rf"graph\.version: the file follows TOSA {major}\.{minor}\.-1, npusim reads 1\.x; export it for TOSA 1\.0"
    with pytest.raises(FileFormatError, match=message):
        read(graph_file(version={"major": major, "minor": minor}))


def test_features_of_later_writers(graph_file: GraphFile) -> None:
    assert read(graph_file(features=0)).version[0] == 1
    with pytest.raises(
        FileFormatError, match="graph: the file needs its reader to know the features 0x2, .*block-scaled"
    ):
        read(graph_file(features=2))


def test_a_graph_without_version() -> None:
    data = b"\x10\0\0\0TOSA\0\0\0\0" + struct.pack("<HHi", 4, 4, 4)
    with pytest.raises(FileFormatError, match="byte 16: graph: it states no version of TOSA; export"):
        read(data)


@pytest.mark.parametrize("data", [b"", b"TOSA", b"\0" * 64, b"\xff" * 64, b"PK\3\4" * 40])
def test_other_files(data: bytes) -> None:
    with pytest.raises(FileFormatError, match=r"net\.tosa: byte [04]: graph: .*(too few|not a TOSA file)"):
        read(data)


INTERESTING = (0, 1, 2, 4, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFC, 0xFFFFFFFF)


def mutate(data: bytes, generator: random.Random) -> bytes:
    """``data`` cut off, or with bits flipped, bytes or words replaced, or parts of it copied over others."""
    size, changed = len(data), bytearray(data)
    kind = generator.randrange(5)
    if kind == 0:
        return data[: generator.randrange(size)]
    for _ in range(generator.randint(1, 3)):
        at = generator.randrange(size - 8)
        if kind == 1:
            changed[at] ^= 1 << generator.randrange(8)
        elif kind == 2:
            run = generator.randint(1, 8)
            changed[at : at + run] = generator.randbytes(run)
        elif kind == 3:
            at -= at % 4
            changed[at : at + 4] = struct.pack("<I", generator.choice(INTERESTING))
        else:
            run, source = generator.randint(4, size // 4), generator.randrange(size)
            piece = data[source : source + run]
            changed[at : at + len(piece)] = piece
    return bytes(changed)


def test_ten_thousand_damaged_files_read_or_are_refused(sample: TosaFile) -> None:
    """Nothing but FileFormatError leaves the reader and the decoder, and both outcomes are common."""
    data, generator, outcomes = write_tosa(sample), random.Random(20), Counter[str]()
    for _ in range(10_000):
        try:
            file = read(mutate(data, generator))
        except FileFormatError as error:
            assert str(error).startswith("net.tosa: byte ")
            outcomes["refused"] += 1
            continue
        outcomes["read"] += 1
        for region in file.regions:
            for block in region.blocks:
                for tensor in block.tensors.values():
                    try:
                        decode_constant(tensor)
                    except FileFormatError:
                        outcomes["constant refused"] += 1
    assert outcomes.total() >= 10_000
    assert min(outcomes.values()) > 500, outcomes


def test_random_bytes_behind_a_good_identifier_read_or_are_refused() -> None:
    generator = random.Random(21)
    for _ in range(2_000):
        with pytest.raises(FileFormatError, match=r"^net\.tosa: byte "):
            read(
                struct.pack("<I", generator.randrange(8, 64)) + b"TOSA" + generator.randbytes(generator.randrange(200))
            )


def test_real_networks_read_without_a_copy_of_their_weights(shared: Path) -> None:
    paths = sorted((shared / "models").glob("*/*/model.tosa"))
    assert len(paths) > 90
    for path in paths:
        data = path.read_bytes()
        block = read_tosa(data, path.name).regions[0].blocks[0]
        known = block.tensors.keys() | block.shapes.keys()
        for operator in block.operators:
            assert known.issuperset(operator.inputs + operator.outputs), (path, operator)
        for tensor in block.tensors.values():
            if tensor.data is not None:
                assert isinstance(tensor.data, memoryview)
                assert tensor.data.obj is data
                assert decode_constant(tensor).shape == tensor.shape
