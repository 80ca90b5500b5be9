"""The chip: its units and the messages when one is missing, and the presets, which state everything."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from npusim.config import load, load_text
from npusim.errors import ConfigError, DoesNotFitError
from npusim.hardware import Chip
from npusim.hardware.units.mac_array import MacArray, Systolic, Unrolled
from npusim.hardware.units.popcount import PopcountUnit
from npusim.hardware.units.vector import VectorUnit
from npusim.ir.work import UnitKind
from npusim.numerics.types import I8, I32
from npusim.ops import op_class, op_names
from npusim.ops._convolution import WeightedOp
from npusim.ops._popcount import PopcountOp
from npusim.ops._product import MatrixProduct
from tests.hardware.tasks import depthwise_task, extents, pool_task, product_task

PRESETS = Path(__file__).resolve().parents[2] / "configs" / "presets"
NAMES = sorted(path.stem for path in PRESETS.glob("*.yaml"))
Keys = tuple[str | int, ...]


def preset(name: str) -> Chip:
    return load(PRESETS / f"{name}.yaml", Chip, "chip")


def document(name: str) -> Any:
    return yaml.safe_load((PRESETS / f"{name}.yaml").read_text(encoding="utf-8"))


def unit_of(chip: Chip, kind: UnitKind) -> Any:
    """The first unit of a kind, or None."""
    return next((u for u in chip.units if u.serves is kind), None)


def mac_array_of(chip: Chip) -> MacArray:
    unit = unit_of(chip, UnitKind.MAC)
    assert isinstance(unit, MacArray)
    return unit


def with_units(chip: Chip, *units: Any) -> Chip:
    return dataclasses.replace(chip, units=units)


# -- units ------------------------------------------------------------------------------------------------------------


def test_every_kind_of_work_has_its_unit() -> None:
    chip = preset("edge")
    assert isinstance(unit_of(chip, UnitKind.MAC), MacArray)
    assert isinstance(unit_of(chip, UnitKind.POPCOUNT), PopcountUnit)
    assert isinstance(unit_of(chip, UnitKind.VECTOR), VectorUnit)
    task = product_task(4, 4, 4)
    assert chip.units_for([task], "here")[0] is unit_of(chip, UnitKind.MAC)


@pytest.mark.parametrize("kind", list(UnitKind))
def test_a_missing_unit(kind: UnitKind) -> None:
    chip = preset("edge")
    less = with_units(chip, *(u for u in chip.units if u.serves is not kind))
    assert unit_of(less, kind) is None
    others = ", ".join(u.kind for u in less.units)
    task = product_task(4, 4, 4)
    task = dataclasses.replace(task, work=dataclasses.replace(task.work, unit=kind))
    message = f"layer 'c1': matmul needs a {kind.value} unit; chip 'edge' has {others}; add one to its units"
    with pytest.raises(DoesNotFitError) as error:
        less.units_for([task], "layer 'c1'")[0]
    assert error.value.problems == (message,)
    assert error.value.exit_code == 4


def test_a_chip_without_units() -> None:
    with pytest.raises(DoesNotFitError, match="needs a mac unit; chip 'edge' has no units; add one to its units"):
        with_units(preset("edge")).units_for([product_task(4, 4, 4)], "layer 'c1'")[0]


def test_an_operator_that_the_unit_does_not_have() -> None:
    message = "layer 'c1': erf: chip 'edge': the vector unit has no erf; add it to the unit's rates with its cycles"
    with pytest.raises(DoesNotFitError) as error:
        preset("edge").units_for([pool_task("erf", (1, 1, 1), 1, (1, 1))], "layer 'c1'")[0]
    assert error.value.problems == (message,)
    assert error.value.exit_code == 4


def test_element_types_that_the_unit_does_not_have() -> None:
    with pytest.raises(DoesNotFitError, match="layer 'c1': matmul: chip 'edge': the mac_array has no rate for i8xi32"):
        preset("edge").units_for([product_task(4, 4, 4, (I8, I32))], "layer 'c1'")[0]


def test_a_unit_may_be_chosen_by_name() -> None:
    chip, task = preset("edge"), product_task(4, 4, 4)
    small = dataclasses.replace(mac_array_of(preset("micro")), name="small")
    both = with_units(chip, *chip.units, small)
    assert both.units_for([task], "here")[0] is both.units_for([task], "here", "mac")[0] is both.units[0]
    assert both.units_for([task], "here", "small")[0] is small
    message = "layer 'c1': no mac unit of chip 'edge' is called 'large'; it has mac, small"
    with pytest.raises(DoesNotFitError, match=message):
        both.units_for([task], "layer 'c1'", "large")[0]


def test_caches_are_not_priced() -> None:
    chip = document("micro")
    chip["dram"]["caches"] = [{"size_bytes": 4096, "ways": 4, "line_bytes": 64, "miss_cycles": 9}]
    message = r"energy: what dram.caches take is not modelled; set energy: null, or caches: \[\]"
    with pytest.raises(ConfigError, match=message):
        load_text(yaml.safe_dump(chip), Chip, "chip")
    assert load_text(yaml.safe_dump({**chip, "energy": None}), Chip, "chip").energy is None


@pytest.mark.parametrize("kind", ["mac_array", "popcount", "vector"])
def test_a_unit_that_is_given_twice(kind: str) -> None:
    chip = document("micro")
    chip["units"] += [u for u in chip["units"] if u["kind"] == kind]
    with pytest.raises(ConfigError, match=f"units: {kind} is given 2 times; use 'instances' for identical units, or"):
        load_text(yaml.safe_dump(chip), Chip, "chip")
    chip["units"][-1] = chip["units"][-1] | {"name": "another"}
    assert len(load_text(yaml.safe_dump(chip), Chip, "chip").units) == 4


@pytest.mark.parametrize("engine", ["dma", "store"])
def test_a_unit_may_not_be_called_like_another_engine(engine: str) -> None:
    chip = document("micro")
    chip["units"][0]["name"] = engine
    with pytest.raises(ConfigError, match=f"units: '{engine}' is the name of another engine; give the unit another"):
        load_text(yaml.safe_dump(chip), Chip, "chip")


def test_memories_for_partial_sums_lie_behind_the_sram() -> None:
    chip = preset("micro")
    assert chip.on_chip_bytes == chip.sram.size_bytes == 131072
    first = dataclasses.replace(mac_array_of(chip), accumulator_bytes=1024, instances=3)
    second = dataclasses.replace(first, accumulator_bytes=512, instances=1, name="second")
    chip = with_units(chip, first, *chip.units[1:], second)
    assert chip.on_chip_bytes == 131072 + 3 * 1024 + 512
    assert [chip.accumulator_base(u) for u in (first, second)] == [131072, 131072 + 3 * 1024]


# -- presets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "macs", "sram_bytes", "kind"),
    [
        ("micro", 64, 128 << 10, Unrolled),
        ("edge", 1024, 1 << 20, Unrolled),
        ("server", 16384, 24 << 20, Systolic),
        ("binary", 256, 512 << 10, Unrolled),
    ],
)
def test_sizes_of_the_presets(name: str, macs: int, sram_bytes: int, kind: type[Any]) -> None:
    chip = preset(name)
    array = mac_array_of(chip).array
    assert (chip.name, array.macs, chip.sram.size_bytes) == (name, macs, sram_bytes)
    assert isinstance(array, kind)
    assert mac_array_of(chip).peak_per_cycle(product_task(1, 1, 1)) == (macs, 1)


@pytest.mark.parametrize("name", NAMES)
def test_rates_and_accumulators_of_the_presets(name: str) -> None:
    array = mac_array_of(preset(name))
    rates = {"i8xi8": Fraction(1), "i8xi4": Fraction(2), "i16xi8": Fraction(1, 2), "i16xi16": Fraction(1, 4)}
    assert array.macs_per_cycle == rates
    assert array.accumulators == {"i32": "refuse", "i48": "refuse"}


@pytest.mark.parametrize("name", NAMES)
def test_the_presets_have_every_operator_and_name_no_other(name: str) -> None:
    chip = preset(name)
    vector = unit_of(chip, UnitKind.VECTOR)
    assert isinstance(vector, VectorUnit)
    named = {operator for rate in vector.rates for operator in rate.operators}
    elsewhere = {n for n in op_names() if issubclass(op_class(n), WeightedOp | MatrixProduct | PopcountOp)}
    assert {"conv2d", "matmul", "binary_conv2d"} <= elsewhere
    assert set(op_names()) - elsewhere == named
    assert set(chip.output_pipeline.operators) <= named


@pytest.mark.parametrize("name", NAMES)
def test_the_output_pipeline_keeps_up_with_the_presets_array(name: str) -> None:
    """Where 1024 products make an output, the array never waits for the pipeline behind it."""
    chip = preset(name)
    task = product_task(1024, 1024, 128)
    cycles = mac_array_of(chip).cycles(task, extents(task))
    assert chip.output_pipeline.cycles(1024 * 128) <= cycles


def test_depthwise_layers_use_little_of_the_server() -> None:
    array = mac_array_of(preset("server"))
    task = depthwise_task((1, 56, 56), 128, (3, 3))
    numerator, denominator = array.peak_per_cycle(task)
    assert task.work.points * denominator * 128 <= array.cycles(task, extents(task)) * numerator


FREE_KEYS = {"macs_per_cycle", "accumulators", "unrollings"}
"""Mappings whose keys are a choice."""


def required_keys(node: Any, path: Keys = ()) -> Iterator[Keys]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield (*path, key)
            if key not in FREE_KEYS:
                yield from required_keys(value, (*path, key))
    elif isinstance(node, list):
        for i, value in enumerate(node):
            yield from required_keys(value, (*path, i))


OPTIONAL = "energy"
"""What may be left out, since what is then asked of it is refused: never free."""
STATED = [path for path in required_keys(document("edge")) if path[0] != OPTIONAL]


@pytest.mark.parametrize("path", STATED, ids=lambda p: ".".join(map(str, p)))
def test_no_quantity_has_a_silent_default(path: Keys) -> None:
    chip = copy.deepcopy(document("edge"))
    holder = chip
    for step in path[:-1]:
        holder = holder[step]
    del holder[path[-1]]
    missing = "needs a 'kind' that is one of" if path[-1] == "kind" else f"{path[-1]}: is required but missing"
    with pytest.raises(ConfigError, match=missing) as error:
        load_text(yaml.safe_dump(chip), Chip, "chip")
    assert len(error.value.problems) == 1


@pytest.mark.parametrize("name", NAMES)
def test_the_presets_state_the_same_things(name: str) -> None:
    """They differ in values and in the kind of array, not in what they say."""
    keys, edge = ({k for k in required_keys(document(n)) if "array" not in k} for n in (name, "edge"))
    assert keys == edge


def streaming(**dram: Any) -> str:
    chip = document("micro")
    chip["output_pipeline"]["streamed_bytes"] = "4 KiB"
    chip["dram"].update(dram)
    return str(yaml.safe_dump(chip))


def test_results_under_way_have_addresses_behind_all_memories() -> None:
    chip = load_text(streaming(), Chip, "chip")
    assert chip.streamed_base == preset("micro").on_chip_bytes
    assert chip.on_chip_bytes == chip.streamed_base + 4096


def test_streamed_results_do_not_share_a_fair_bus() -> None:
    fair: dict[str, Any] = {"fair": True, "turnaround_cycles": 0}
    with pytest.raises(ConfigError, match="streamed_bytes with dram.fair needs a dram.write_channel"):
        load_text(streaming(**fair), Chip, "chip")
    own = {"write_channel": {"bytes_per_cycle": 4, "latency_cycles": 0}}
    assert load_text(streaming(**fair, **own), Chip, "chip").dram.fair
