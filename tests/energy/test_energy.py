"""Energy: counts of small programs on paper, prices, refusals; sums that hold for whole networks."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from pathlib import Path

import pytest

from npusim.api import make_job
from npusim.energy import Actions, area, layer_actions, layer_energy, priced
from npusim.errors import InputError
from npusim.frontends.chip import load_chip
from npusim.graph import Graph, GraphBuilder
from npusim.hardware import Chip, UnitSpec
from npusim.hardware.energy_table import COMPONENTS, ActionEnergies, EnergyTable
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.ir.tensor import TensorType
from npusim.mapping.mapper import map_graph
from npusim.numerics.types import I8
from npusim.ops import op_class
from npusim.program import TileProgram
from npusim.report.build import region_macs
from npusim.session import run
from npusim.timing.costs import command_costs
from tests.plain import chain, conv, matmul, plain_chip

DIGITS = Path(__file__).resolve().parents[2] / "workloads" / "digits.yaml"

TABLE = ActionEnergies(
    mac={"i8xi8": 3},
    output_element=5,
    sram_read_byte=7,
    sram_write_byte=11,
    dram_byte=13,
    cycle=17,
)


def with_energies(table: ActionEnergies) -> Chip:
    return replace(plain_chip(), energy=EnergyTable(femtojoules=table))


def program(graph: Graph, chip: Chip, **layers: LayerOptions) -> TileProgram:
    return map_graph(graph, chip, MappingOptions(layers=layers)).program


def actions_of(made: TileProgram, chip: Chip) -> tuple[Actions, ...]:
    return layer_actions(made, chip, command_costs(made, chip))


def energy_of(made: TileProgram, chip: Chip) -> tuple[dict[str, int], ...] | None:
    return layer_energy(made, chip, command_costs(made, chip))


def counted(graph: Graph, chip: Chip, **layers: LayerOptions) -> dict[str, int]:
    (actions,) = actions_of(program(graph, chip, **layers), chip)
    return {a: n for a, n in actions.items() if n}


# -- counts on paper --------------------------------------------------------------------------------------------------

TWO_TILES = LayerOptions(tile={"h": 2, "w": 4, "c": 8}, buffers=2)


def test_a_product_in_two_tiles_on_paper() -> None:
    """Each tile reads its 2 x 8 bytes of a once for each of the 4 outputs, 8 x 4 of b, and writes 2 x 4 sums of 4."""
    assert counted(matmul(4, 8, 4), plain_chip(), mm=TWO_TILES) == {
        "mac.i8xi8": 4 * 8 * 4,
        "output_element": 4 * 4,
        "sram_read_byte": 2 * (4 * 16 + 32) + 64,  # and the store of the result
        "sram_write_byte": 2 * 32 + 32 + 32,  # and the loads of a and b
        "dram_byte": 32 + 32 + 64,
    }


def test_a_split_reduction_reads_and_writes_its_sums() -> None:
    """Two boxes of half the reduction: the first writes 4 x 4 sums of 4 bytes, the second reads them."""
    whole = counted(matmul(4, 8, 4), plain_chip(), mm=LayerOptions(tile={"h": 4, "w": 4, "c": 8}))
    split = counted(matmul(4, 8, 4), plain_chip(), mm=LayerOptions(tile={"h": 4, "w": 4, "c": 4}))
    assert split == {**whole, "sram_read_byte": whole["sram_read_byte"] + 64,
                     "sram_write_byte": whole["sram_write_byte"] + 64}  # fmt: skip


def test_sums_in_a_memory_of_their_own_are_counted_there() -> None:
    own = plain_chip("units.0.accumulator_bytes=4096")
    whole = counted(matmul(4, 8, 4), own, mm=LayerOptions(tile={"h": 4, "w": 4, "c": 8}))
    split = counted(matmul(4, 8, 4), own, mm=LayerOptions(tile={"h": 4, "w": 4, "c": 2}))
    assert "accumulator_byte" not in whole
    assert split == {**whole, "accumulator_byte": 3 * 2 * 64}


def test_bursts_and_words_of_a_bank_are_counted_whole() -> None:
    """Rows of 8 and 4 bytes of a product whose tiles cut them, in words of 16 bytes and bursts of 32."""
    chip = plain_chip("sram.bytes_per_cycle=64", "sram.banks=4", "dram.burst_bytes=32")
    got = counted(matmul(4, 8, 4), chip, mm=LayerOptions(tile={"h": 4, "w": 2, "c": 8}, buffers=2))
    assert got["dram_byte"] == 32 + 2 * 8 * 32 + 2 * 4 * 32  # a; b by columns of two; y likewise
    loads = 2 + 2 * 8
    results = 2 * 4
    assert got["sram_write_byte"] == 16 * (loads + results)
    assert got["sram_read_byte"] == 16 * (2 * (2 * 2 + 8) + 2 * 4)  # a twice a tile, b once; stores


def test_results_that_leave_while_they_are_made_bypass_the_sram() -> None:
    tile = LayerOptions(tile={"oy": 2, "ox": 4, "oc": 5, "ky": 3, "kx": 3, "ic": 3}, buffers=2)
    kept = counted(conv(4, 3, 5), plain_chip(), conv=tile)
    streamed = counted(conv(4, 3, 5), plain_chip("output_pipeline.streamed_bytes=4 KiB"), conv=tile)
    assert streamed["dram_byte"] == kept["dram_byte"]
    result = 4 * 4 * 5
    assert kept["sram_write_byte"] - streamed["sram_write_byte"] == result
    assert kept["sram_read_byte"] - streamed["sram_read_byte"] == result


def test_operators_on_the_vector_unit_cost_their_cycles_on_their_lanes() -> None:
    b = GraphBuilder("vector")
    b.input("x", TensorType((10, 10), I8))
    b.node("clamp", op_class("clamp")(min_val=0, max_val=9), ("x",), "low")
    assert counted(b.finish(("low",)), plain_chip("units.2.lanes=64")) == {
        "vector_operation": 100, "sram_read_byte": 200, "sram_write_byte": 200, "dram_byte": 200,
    }  # fmt: skip


def test_a_rescale_that_the_pipeline_lacks_is_vector_work_of_two_cycles() -> None:
    chip = plain_chip("output_pipeline.operators=[]")
    sums, rescaled = actions_of(program(conv(4, 3, 5), chip), chip)
    assert (sums["output_element"], sums["vector_operation"]) == (80, 0)
    assert (rescaled["output_element"], rescaled["vector_operation"]) == (0, 160)


def test_graph_inputs_and_outputs_go_over_the_host_link() -> None:
    own = counted(matmul(4, 8, 4), plain_chip(), mm=TWO_TILES)
    link = plain_chip("host_link={bytes_per_cycle: 1, latency_cycles: 0}")
    hosted = counted(matmul(4, 8, 4), link, mm=TWO_TILES)
    assert hosted == {**own, "dram_byte": 32, "host_byte": 32 + 64}


def test_constants_that_are_there_before_the_run_are_not_moved_in_it() -> None:
    own = counted(matmul(4, 8, 4), plain_chip(), mm=TWO_TILES)
    there = counted(matmul(4, 8, 4), plain_chip("sram.preloaded_constants=true"), mm=TWO_TILES)
    assert there == {**own, "dram_byte": own["dram_byte"] - 32, "sram_write_byte": own["sram_write_byte"] - 32}


# -- sums over whole networks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["micro", "edge", "server"])
@pytest.mark.parametrize("graph", [chain(3), conv(13, 20, 37)], ids=["chain", "conv"])
def test_counts_do_not_depend_on_how_the_work_is_cut(name: str, graph: Graph) -> None:
    chip = load_chip(name)
    made = program(graph, chip)
    for actions, region in zip(actions_of(made, chip), made.regions, strict=True):
        assert actions["mac.i8xi8"] == region_macs(region)[0]
        assert actions["output_element"] == prod(region.output_type.shape)


@pytest.mark.parametrize("name", ["micro", "edge", "server"])
def test_layers_and_components_of_a_run_add_up(name: str) -> None:
    job = make_job(DIGITS, name, bits="off")
    report = run(job).report
    table = job.chip.energy.femtojoules if job.chip.energy else None
    total = report.totals.energy_femtojoules
    assert total is not None and table is not None
    for component in COMPONENTS.values():
        parts = [(layer.energy_femtojoules or {}).get(component, 0) for layer in report.layers]
        assert sum(parts) == total.get(component, 0)
    assert list(total) == [c for c in dict.fromkeys(COMPONENTS.values()) if c in total]
    assert total["leakage"] == report.totals.cycles * (table.cycle or 0)
    moved = report.totals.dram_read_bytes + report.totals.dram_write_bytes
    assert total["dram"] == moved * (table.dram_byte or 0)
    assert ("hops" in total) == (name == "server")


# -- prices and refusals ----------------------------------------------------------------------------------------------


def test_prices_are_sums_of_products() -> None:
    actions = {"mac.i8xi8": 2, "sram_read_byte": 3, "sram_write_byte": 4, "dram_byte": 0, "cycle": 10}
    assert priced(actions, TABLE) == {"mac": 6, "sram": 3 * 7 + 4 * 11, "leakage": 170}
    assert priced({}, TABLE) == {}


def test_a_chip_without_a_table_has_no_energy() -> None:
    chip = plain_chip("energy=null")
    assert energy_of(program(matmul(4, 8, 4), chip), chip) is None
    assert area(chip) is None


def test_a_table_that_is_complete_for_the_program() -> None:
    chip = with_energies(TABLE)
    assert energy_of(program(matmul(4, 8, 4), chip, mm=TWO_TILES), chip) == (
        {"mac": 128 * 3, "output_pipeline": 16 * 5, "sram": 256 * 7 + 128 * 11, "dram": 128 * 13},
    )


@pytest.mark.parametrize("key", ["output_element", "sram_read_byte", "sram_write_byte", "dram_byte", "cycle"])
def test_what_a_program_does_must_have_an_entry(key: str) -> None:
    chip = with_energies(replace(TABLE, **{key: None}))
    message = (
        "layer 'mm': chip 'micro' states energies, but not that of what this layer does: add "
        rf"energy.femtojoules.{key} \(0 if it is meant to be free\), or set energy: null"
    )
    with pytest.raises(InputError, match=message) as error:
        energy_of(program(matmul(4, 8, 4), chip), chip)
    assert len(error.value.problems) == 1
    free = with_energies(replace(TABLE, **{key: 0}))
    assert energy_of(program(matmul(4, 8, 4), free), free) is not None


def test_all_missing_entries_are_named_at_once_each_with_its_first_layer() -> None:
    chip = with_energies(ActionEnergies(mac={"i16xi8": 1}))
    with pytest.raises(InputError) as error:
        energy_of(program(chain(2), chip), chip)
    keys = {p.split(": add energy.femtojoules.")[1].split(" ")[0] for p in error.value.problems}
    assert keys == {"mac.i8xi8", "output_element", "sram_read_byte", "sram_write_byte", "dram_byte", "cycle"}
    assert len(error.value.problems) == len(keys)
    assert all(p.startswith("layer 'mm0': ") for p in error.value.problems)


def test_arrays_whose_traffic_is_not_counted_are_refused() -> None:
    """The scratch pads and buses of a row-stationary array are not free."""
    array = (
        "units.0.array={kind: row_stationary, rows: 8, columns: 4, filter_words: 40, ifmap_words: 20, psum_words: 4, "
        "filter_words_per_cycle: 1, ifmap_words_per_cycle: 1, psum_words_per_cycle: 1}"
    )
    chip = plain_chip(array)
    with pytest.raises(InputError, match="'mac' .* its actions are not counted"):
        energy_of(program(conv(4, 3, 5), chip), chip)
    chip = plain_chip(array, "energy=null")
    assert energy_of(program(conv(4, 3, 5), chip), chip) is None


def test_a_unit_that_does_not_count_its_actions_is_refused() -> None:
    """Not free by omission: an array of a kind whose hops nobody counts."""
    chip = load_chip("edge")
    with pytest.raises(InputError, match=r"unit 'mac' \(mac_array\): its actions are not counted.*set energy: null"):
        UnitSpec.actions(chip.units[0], None, ())  # type: ignore[arg-type]


# -- area -------------------------------------------------------------------------------------------------------------


def test_area_by_part() -> None:
    base = {"multiplier": 2, "popcount_bit": 3, "lane": 5, "sram_byte": 7}
    entries = ", ".join(f"{k}: {v}" for k, v in base.items())
    chip = load_chip("micro", [
        f"energy.square_micrometres={{{entries}}}", "units.0.instances=2", "units.0.accumulator_bytes=1000",
        "units.1.instances=3", "units.1.lanes=4", "units.1.word_bits=16", "units.2.lanes=9",
    ])  # fmt: skip
    parts = {"mac": 2 * 64 * 2, "popcount": 3 * 4 * 16 * 3, "vector": 9 * 5, "sram": ((128 << 10) + 2000) * 7}
    assert area(chip) == parts
    assert area(load_chip("micro", ["energy.square_micrometres=null"])) is None
