"""Writing TOSA files: they read back as the same records, real ones included."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from npusim.errors import InputError
from npusim.frontends.tosa import TosaFile, TosaOperator, TosaTensor, read_tosa, schema, write_tosa


def test_records_survive_a_round_trip(sample: TosaFile) -> None:
    data = write_tosa(sample)
    assert data[4:8] == b"TOSA"
    assert read_tosa(data, "sample.tosa") == sample
    assert write_tosa(read_tosa(data, "sample.tosa")) == data


def with_operator(sample: TosaFile, operator: TosaOperator) -> TosaFile:
    region = sample.regions[0]
    block = replace(region.blocks[0], operators=(operator,))
    return replace(sample, regions=(replace(region, blocks=(block,)),))


@pytest.mark.parametrize("name", schema.ATTRIBUTES)
def test_every_operator_survives_with_default_attributes(sample: TosaFile, name: str) -> None:
    written = write_tosa(with_operator(sample, TosaOperator(name, {}, ("x",), ("y",), 0)))
    (operator,) = read_tosa(written, "f.tosa").regions[0].blocks[0].operators
    defaults = {field.name: field.absent for field in schema.ATTRIBUTES[name]}
    assert operator == TosaOperator(name, defaults, ("x",), ("y",), 0)


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        (("CONV4D", {}), r"the name of operator CONV4D with outputs y is 'CONV4D'; use one of ARGMAX, "),
        (("UNKNOWN", {}), r"the name of operator UNKNOWN with outputs y is 'UNKNOWN'; use one of ARGMAX, "),
        (("ADD", {"axis": 1}), r"operator ADD with outputs y has no field 'axis'; its fields are: none"),
        (
            ("ARGMAX", {"axes": 1}),
            r"operator ARGMAX with outputs y has no field 'axes'; its fields are: axis, nan_mode",
        ),
        (
            ("RESIZE", {"mode": "CUBIC"}),
            r"mode of operator RESIZE .* is 'CUBIC'; use one of UNKNOWN, NEAREST, BILINEAR",
        ),
    ],
)
def test_refused_operators(sample: TosaFile, operator: tuple[str, dict[str, object]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        write_tosa(with_operator(sample, TosaOperator(*operator, (), ("y",), 0)))


def test_refused_element_type(sample: TosaFile) -> None:
    region = sample.regions[0]
    block = replace(region.blocks[0], tensors={"t": TosaTensor("t", (1,), "INT7")})
    with pytest.raises(InputError, match=r"the element type of tensor 't' is 'INT7'; use one of BOOL, INT4"):
        write_tosa(replace(sample, regions=(replace(region, blocks=(block,)),)))


def test_real_networks_survive_a_round_trip(shared: Path) -> None:
    paths = sorted((shared / "models").glob("*/*/model.tosa"))
    assert len(paths) > 90
    for path in paths:
        file = read_tosa(path.read_bytes(), path.name)
        assert read_tosa(write_tosa(file), path.name) == file, path


def test_conformance_graphs_survive_a_round_trip(shared: Path) -> None:
    paths = sorted((shared / "conformance").glob("*/*/test.tosa"))[::5]
    assert len(paths) > 100
    for path in paths:
        file = read_tosa(path.read_bytes(), path.name)
        assert read_tosa(write_tosa(file), path.name) == file, path
