"""Sweeps: figures of every point, the same in one process and in several, and points that do not run."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from fractions import Fraction

import pytest

from npusim.errors import InputError, InternalError
from npusim.explore.sweep import FIGURES, Point, chip_number, simulate_point, sweep
from npusim.frontends.chip import load_chip
from npusim.ir.mapping_options import MappingOptions
from npusim.session import Job, RunResult, run
from tests.plain import matmul, plain_chip

ONCE = MappingOptions(smaller_memories=False)
SPACE = {"sram.size_bytes": ("4 B", "512 B", "64 KiB"), "dram.bytes_per_cycle": ("1", "16")}
OBJECTIVES = ("cycles", "sram.size_bytes")


def product_on(overrides: Mapping[str, str]) -> Job:
    """A product of 16 x 64 x 16 on the plain chip."""
    graph = matmul(16, 64, 16)
    chip = plain_chip(*(f"{k}={v}" for k, v in overrides.items()))
    return Job(graph=graph, chip=chip, inputs={"a": graph.constants["b"].reshape(1, 16, 64)}, mapping=ONCE)


def test_points_are_those_of_single_runs_in_order() -> None:
    points = sweep(product_on, SPACE, OBJECTIVES)
    assert [tuple(p.overrides.values()) for p in points] == [
        (size, rate) for size in SPACE["sram.size_bytes"] for rate in SPACE["dram.bytes_per_cycle"]
    ]
    for p in points:
        if p.errors:
            continue
        totals = run(product_on(p.overrides)).report.totals
        assert p.cycles == totals.cycles == p.objectives["cycles"]
        assert p.dram_bytes == totals.dram_read_bytes + totals.dram_write_bytes
        assert totals.energy_femtojoules is not None and totals.area_square_micrometres is not None
        assert p.energy_femtojoules == sum(totals.energy_femtojoules.values())
        assert p.area_square_micrometres == sum(totals.area_square_micrometres.values())
        assert sum(p.losses.values()) == 1
        assert p.losses["useful"] == Fraction(totals.useful_macs, totals.cycles)
        assert p.objectives["sram.size_bytes"] == {"512 B": 512, "64 KiB": 65536}[p.overrides["sram.size_bytes"]]
    ran = {tuple(p.overrides.values()): p for p in points if not p.errors}
    assert ran["64 KiB", "16"].cycles < ran["64 KiB", "1"].cycles  # type: ignore[operator]
    assert ran["64 KiB", "1"].dram_bytes <= ran["512 B", "1"].dram_bytes  # type: ignore[operator]


def test_a_point_that_does_not_fit_says_so_and_has_no_figures() -> None:
    point = sweep(product_on, SPACE, OBJECTIVES)[0]
    assert point.overrides["sram.size_bytes"] == "4 B" and point.exit_code == 4
    assert len(point.errors) == 1 and "layer 'mm': its smallest tile" in point.errors[0]
    assert (point.cycles, point.energy_femtojoules, point.dram_bytes, point.area_square_micrometres) == (None,) * 4
    assert point.objectives == {}


def test_several_processes_give_equal_bytes_in_equal_order() -> None:
    seen: list[str] = []
    one = sweep(product_on, SPACE, OBJECTIVES)
    two = sweep(product_on, SPACE, OBJECTIVES, workers=2, progress=seen.append)
    assert two == one
    assert [pickle.dumps(p) for p in two] == [pickle.dumps(p) for p in pickle.loads(pickle.dumps(one))]
    assert seen == [f"point {i} of 6" for i in range(1, 7)]


def test_progress_of_one_process() -> None:
    seen: list[str] = []
    sweep(product_on, {"sram.banks": ("1", "2")}, ("cycles",), progress=seen.append)
    assert seen == ["point 1 of 2", "point 2 of 2"]


def test_bits_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    job = product_on({})
    assert job.bits == "timed"
    ran: list[Job] = []

    def spy(given: Job) -> RunResult:
        ran.append(given)
        return run(given)

    monkeypatch.setattr("npusim.explore.sweep.run", spy)
    point = simulate_point(lambda _: job, ("cycles",), {})
    assert [j.bits for j in ran] == ["off"] and ran[0].chip == job.chip
    assert point.cycles == run(job).report.totals.cycles


def test_a_value_that_breaks_a_rule_is_the_points_error() -> None:
    good, bad = sweep(product_on, {"sram.banks": ("65536", "7")}, ("cycles",))
    assert not good.errors
    assert bad.exit_code == 2 and "banks: 7 banks cannot share 65536 bytes_per_cycle evenly" in bad.errors[0]


def test_faults_of_our_own_pass_through() -> None:
    def broken(_: Mapping[str, str]) -> Job:
        raise InternalError("slot 7")

    with pytest.raises(InternalError, match="slot 7"):
        sweep(broken, SPACE, OBJECTIVES)


@pytest.mark.parametrize(
    ("objective", "section"), [("energy", "energy.femtojoules"), ("area", "energy.square_micrometres")]
)
def test_an_objective_that_the_chip_does_not_state(objective: str, section: str) -> None:
    point = simulate_point(product_on, (objective,), {"energy": "null"})
    assert point.errors == (
        f"objective '{objective}': chip 'micro' does not state what it takes; add {section} to the chip, or choose "
        "another objective",
    )
    without = simulate_point(product_on, ("cycles",), {"energy": "null"})
    assert without.energy_femtojoules is without.area_square_micrometres is None and without.cycles


# -- numbers of the chip ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "number"),
    [
        ("sram.size_bytes", 1 << 20),
        ("dram.bytes_per_cycle", Fraction(64, 5)),
        ("units.vector.lanes", 32),
        ("units.1.word_bits", 256),
        ("units.mac_array.array.unrollings.0.in_channel", 32),
        ("energy.femtojoules.mac.i8xi8", 300),
    ],
)
def test_numbers_are_found_as_overrides_name_them(key: str, number: int | Fraction) -> None:
    assert chip_number(load_chip("edge"), key) == number


@pytest.mark.parametrize(
    "key",
    ["cycle", "name", "sram", "sram.bank", "units.9.lanes", "units.fpu.lanes", "units.99999999999.lanes", "dram.fair",
     "units.mac_array.macs_per_cycle.i4xi4", "sram.allocated_bytes", "mapping.buffers", ""],
)  # fmt: skip
def test_what_is_no_number_of_the_chip(key: str) -> None:
    message = (
        f"^objective '{key}': is no number of chip 'edge'; give cycles, energy, dram_bytes, area, or the key of a "
        "number as npusim show prints it, such as sram.size_bytes$"
    )
    with pytest.raises(InputError, match=message):
        chip_number(load_chip("edge"), key)


def test_two_units_of_a_kind_are_told_apart_by_their_names() -> None:
    chip = plain_chip()
    named = load_chip("micro", ["units.vector.name=simd"])
    assert chip_number(named, "units.simd.lanes") == chip_number(chip, "units.2.lanes") * 8


def test_figures_are_those_of_a_point() -> None:
    point = Point({}, cycles=1, energy_femtojoules=2, dram_bytes=3, area_square_micrometres=4)
    assert {name: figure(point) for name, figure in FIGURES.items()} == {
        "cycles": 1, "energy": 2, "dram_bytes": 3, "area": 4,
    }  # fmt: skip
