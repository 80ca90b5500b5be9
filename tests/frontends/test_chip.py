"""Chips: shipped ones by name, others by path, with overrides."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from npusim.errors import ConfigError, InputError
from npusim.frontends.chip import DEFAULT_CHIP, is_path, load_chip, shipped_chip, shipped_chips

PRESETS = Path(__file__).parents[2] / "configs" / "presets"


@pytest.mark.parametrize("path", sorted(PRESETS.glob("*.yaml")), ids=lambda p: p.stem)
def test_every_preset_loads_by_its_name_and_by_its_path(path: Path) -> None:
    chip = load_chip(path.stem)
    assert chip.name == path.stem
    assert load_chip(path) == load_chip(str(path)) == chip


def test_the_shipped_chips_are_sorted_and_have_the_default() -> None:
    assert list(shipped_chips()) == sorted(shipped_chips())
    assert {p.stem for p in PRESETS.glob("*.yaml")} <= set(shipped_chips())
    assert shipped_chip(DEFAULT_CHIP).is_file()


def test_an_unknown_chip_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(InputError, match=r"chips .*edge, .*micro.* none called 'edgee'; did you mean 'edge'\?"):
        load_chip("edgee")
    with pytest.raises(InputError, match="none called 'zzz'; give one of them, or the path of a .yaml file"):
        load_chip("zzz")


def test_a_path_is_told_from_a_name() -> None:
    paths = ["a.yaml", "a.yml", f"x{os.sep}a", Path("edge")]
    assert [is_path(p) for p in paths] == [True] * 4
    assert not is_path("edge")


def test_overrides_reach_the_chip() -> None:
    assert load_chip("micro", ["sram.banks=8", "name=mine"]).sram.banks == 8
    with pytest.raises(ConfigError, match="^--set sram.bansk=8: sram.bansk: unknown key 'bansk'.*did you mean 'banks'"):
        load_chip("micro", ["sram.bansk=8"])
    with pytest.raises(ConfigError, match="--set banks: has no '='"):
        load_chip("micro", ["banks"])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"mine.yaml: there is no such chip file"):
        load_chip(tmp_path / "mine.yaml")
