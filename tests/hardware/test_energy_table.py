"""The energy table: entries, what may be left out, and the presets' figures derived again from their sources."""

from __future__ import annotations

import dataclasses
from math import log
from pathlib import Path

import pytest

from npusim.config import load, load_text
from npusim.energy import area
from npusim.errors import ConfigError
from npusim.frontends.chip import load_chip
from npusim.hardware import Chip
from npusim.hardware.energy_table import COMPONENTS, ActionEnergies, EnergyTable, PartAreas, entry_key
from npusim.hardware.units.popcount import PopcountUnit
from npusim.hardware.units.vector import VectorUnit
from npusim.ir.work import UnitKind

PRESETS = Path(__file__).resolve().parents[2] / "configs" / "presets"
NAMES = sorted(path.stem for path in PRESETS.glob("*.yaml"))


def preset(name: str) -> tuple[Chip, ActionEnergies, PartAreas]:
    chip = load(PRESETS / f"{name}.yaml", Chip, "chip")
    assert chip.energy is not None
    assert chip.energy.femtojoules is not None and chip.energy.square_micrometres is not None
    return chip, chip.energy.femtojoules, chip.energy.square_micrometres


def test_every_action_has_its_field_and_every_energy_its_action() -> None:
    assert {f.name for f in dataclasses.fields(ActionEnergies)} == COMPONENTS.keys()  # type: ignore[arg-type]


def test_entries() -> None:
    table = load_text("{mac: {i8xi8: 5}, dram_byte: 0}", ActionEnergies, "energies")
    assert table.entry("mac.i8xi8") == 5
    assert table.entry("dram_byte") == 0
    assert table.entry("mac.i16xi8") is table.entry("cycle") is None
    assert ActionEnergies().entry("mac.i8xi8") is None
    assert EnergyTable().femtojoules is EnergyTable().square_micrometres is None


def test_keys_of_entries_lead_to_them() -> None:
    for action in ("mac.i8xi4", "dram_byte", "cycle"):
        table = load_chip("edge", [f"{entry_key(action)}=123456"]).energy
        assert table is not None and table.femtojoules is not None
        assert table.femtojoules.entry(action) == 123456


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{femtojoules: {cycle: -1}}", "femtojoules.cycle: .*at least 0"),
        ("{femtojoules: {cycle: 1.5}}", "femtojoules.cycle: .*whole number"),
        ("{femtojoules: {mac: 3}}", "femtojoules.mac: .*mapping"),
        ("{femtojoules: {dram_bytes: 1}}", "unknown key 'dram_bytes'.*did you mean 'dram_byte'"),
        ("{square_micrometres: {popcount_bit: 1, lane: 1, sram_byte: 1}}", "multiplier: is required but missing"),
    ],
)
def test_what_yaml_may_not_say(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_text(text, EnergyTable, "energy")


# -- the presets, from their sources: energies in fJ, areas in square micrometres, leakage in nW -----------------------

ADD_8, ADD_32, MULTIPLY_8, MULTIPLY_32 = 30, 100, 200, 3100  # Horowitz, 45 nm
SRAM_8K, SRAM_32K, SRAM_1M, DRAM = 10_000, 20_000, 100_000, 1_300_000  # for 64 bits
INSTRUCTION, REGISTERS = 70_000, 6_000
REGISTER_BIT = {"energy": 9, "area": 5.98, "leakage": 73.95}  # Aladdin, 40 nm
LOGIC_AREA = {10**9: (277.98, 6351.3), 2 * 10**8: (179.44, 4595)}  # addition and multiplication at a clock, Aladdin


@pytest.mark.parametrize("name", NAMES)
def test_energies_of_arithmetic(name: str) -> None:
    chip, table, _ = preset(name)
    vector, popcount = (next(u for u in chip.units if u.serves is k) for k in (UnitKind.VECTOR, UnitKind.POPCOUNT))
    assert isinstance(vector, VectorUnit) and isinstance(popcount, PopcountUnit)
    assert table.mac == {
        "i8xi8": MULTIPLY_8 + ADD_32,
        "i8xi4": MULTIPLY_8 // 2 + ADD_32,
        "i16xi8": 2 * MULTIPLY_8 + ADD_32 * 48 // 32,
        "i16xi16": 4 * MULTIPLY_8 + ADD_32 * 48 // 32,
    }
    assert table.hop_byte == 8 * REGISTER_BIT["energy"]
    assert table.popcount_word == popcount.word_bits * 3 * ADD_8 // 16 + ADD_32
    rest = INSTRUCTION - REGISTERS - ADD_32
    assert table.vector_operation == REGISTERS + ADD_32 + round(rest / vector.lanes)
    assert table.output_element == MULTIPLY_32 + 3 * ADD_32


@pytest.mark.parametrize("name", NAMES)
def test_energies_of_memories(name: str) -> None:
    chip, table, _ = preset(name)
    power = log(SRAM_1M / SRAM_32K) / log(32)
    bank = chip.sram.size_bytes // chip.sram.banks
    assert table.sram_read_byte == round(SRAM_32K * (bank / (32 << 10)) ** power / 8)
    assert table.sram_write_byte == table.sram_read_byte
    assert table.accumulator_byte == SRAM_8K / 8
    assert table.dram_byte == (3920 * 8 if name == "server" else DRAM / 8)


@pytest.mark.parametrize("name", NAMES)
def test_areas_and_leakage(name: str) -> None:
    chip, table, areas = preset(name)
    addition, multiplication = LOGIC_AREA[chip.clock_hz]
    bit = REGISTER_BIT["area"]
    assert areas.multiplier == round(multiplication / 16 + addition + 48 * bit)
    assert areas.popcount_bit == round(1.5 * addition / 32)
    assert areas.lane == round(multiplication + addition + 3 * 32 * bit)
    assert areas.sram_byte == round(8 * 119e6 / (153 << 20))
    parts = area(chip)
    assert parts is not None
    nanowatts = sum(parts.values()) * REGISTER_BIT["leakage"] / bit
    assert table.cycle == round(nanowatts * 1e6 / chip.clock_hz)
