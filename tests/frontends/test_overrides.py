"""Overrides: sorted into the workload's and the chip's, and taken apart."""

from __future__ import annotations

import pytest

from npusim.errors import ConfigError
from npusim.frontends.overrides import key_values, split_overrides


def test_overrides_go_to_the_file_that_has_the_key() -> None:
    workload = ["mapping.layers.a.b.buffers=2", "seed=3", "name=x", "level=none", "model_options.pad_rule=literal"]
    chip = ["chip.name=mine", "sram.banks=4", "seeds=1", "units.mac_array.instances=2", "chip.seed=1"]
    got = split_overrides([workload[0], *chip, *workload[1:]])
    assert got == (workload, ["name=mine", "sram.banks=4", "seeds=1", "units.mac_array.instances=2", "seed=1"])


def test_only_the_first_equals_sign_separates() -> None:
    assert key_values(["a.b=c=d", "e="]) == [("a.b", "c=d"), ("e", "")]


def test_overrides_without_a_value_are_all_named() -> None:
    with pytest.raises(ConfigError, match=r"--set fuse: has no '='; write key=value, such as mapping.fuse=false") as e:
        key_values(["fuse", "a=b", "banks"])
    assert len(e.value.problems) == 2
