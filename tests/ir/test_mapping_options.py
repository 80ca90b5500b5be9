"""What a person may say about the mapping, and what is refused."""

from __future__ import annotations

import pytest

from npusim.config import load_text
from npusim.errors import ConfigError
from npusim.ir.mapping_options import LayerOptions, MappingOptions

TEXT = """
fuse: false
candidates: 64
layers:
  conv1: {tile: {oc: 8, ox: 4}, order: [oy, oc], buffers: 3, unit: small, unrolling: im2col, resident: true}
  conv2: {}
  conv3: {unrolling: 1}
"""


def test_options_from_yaml() -> None:
    options = load_text(TEXT, MappingOptions, "mapping")
    assert (options.fuse, options.residency, options.prefetch) == (False, True, True)
    assert (options.candidates, options.buffers) == (64, None)
    layer = options.layers["conv1"]
    assert (layer.tile, layer.order) == ({"oc": 8, "ox": 4}, ("oy", "oc"))
    assert (layer.buffers, layer.unit, layer.resident) == (3, "small", True)
    assert (layer.unrolling, options.layers["conv3"].unrolling) == ("im2col", 1)
    assert options.layers["conv2"] == LayerOptions()


def test_what_is_not_said_is_searched() -> None:
    options, layer = MappingOptions(), LayerOptions()
    assert (options.fuse, options.residency, options.prefetch, options.buffers) == (True, True, True, None)
    assert (layer.tile, layer.order, layer.buffers, layer.unit, layer.resident) == ({}, None, None, None, None)
    assert (options.layers, options.candidates) == ({}, 256)


def test_two_layers_share_no_defaults() -> None:
    assert LayerOptions().tile is not LayerOptions().tile
    assert MappingOptions().layers is not MappingOptions().layers


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("buffers: 3", "buffers: 65", ":5:.*layers.conv1.buffers: must be at most 64; got 65"),
        ("buffers: 3", "buffers: 0", "layers.conv1.buffers: must be at least 1; got 0"),
        ("buffers: 3", "buffers: 2.0", "layers.conv1.buffers"),
        ("candidates: 64", "candidates: 0", "candidates"),
        ("oc: 8", "oc: 0", "layers.conv1.tile.oc"),
        ("oc: 8", "oc: 2/3", "layers.conv1.tile.oc"),
        ("[oy, oc]", "oy", "layers.conv1.order"),
        ("resident: true", "resident: yes", "layers.conv1.resident"),
        ("fuse: false", "fuze: false", "unknown key 'fuze'.*did you mean 'fuse'"),
        (
            "unrolling: 1",
            "unrolling: -1",
            "layers.conv3.unrolling: must be text or a whole number .at least 0.; got -1",
        ),
        ("unrolling: 1", "unrolling: true", "layers.conv3.unrolling: must be text or a whole number"),
        ("tile:", "tiles:", "unknown key 'tiles'.*did you mean 'tile'"),
    ],
)
def test_what_yaml_may_not_say(old: str, new: str, message: str) -> None:
    assert TEXT.count(old) == 1
    with pytest.raises(ConfigError, match=message):
        load_text(TEXT.replace(old, new), MappingOptions, "mapping")
