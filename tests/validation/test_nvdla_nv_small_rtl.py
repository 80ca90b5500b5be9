"""nv_small against its RTL: the errors that are achieved, and what the chip's mechanisms say of single layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npusim.errors import InputError
from npusim.explore.validate import CaseResult, cases_folder, load_case, read_rows, run_case
from npusim.explore.validation import Row
from npusim.frontends.chip import load_chip
from npusim.functional import evaluate_graph, execute
from npusim.graph import GraphBuilder
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.ir.tensor import TensorType
from npusim.mapping.mapper import map_graph
from npusim.numerics.types import I8, I32
from npusim.ops import make_op
from npusim.session import overflow_policies
from npusim.timing import simulate

CASE = load_case(cases_folder() / "nvdla_nv_small_rtl" / "case.py")
SHARED = Path(__file__).resolve().parents[3] / "shared" / "validation" / "nvdla_nv_small_rtl.yaml"


@pytest.fixture(scope="module")
def result() -> CaseResult:
    return run_case(CASE, read_rows(CASE))


def test_the_errors_are_what_they_were(result: CaseResult) -> None:
    assert len(result.outcomes) == 92 and result.met
    assert result.achieved is not None and result.achieved <= 1.0


def test_all_but_the_smallest_layer_are_within_three_percent(result: CaseResult) -> None:
    off = {o.row.id for o in result.outcomes if abs(o.error) > 3}
    assert {name.split()[0] for name in off} <= {"dc_1x1x8_1x1x8x1_int8_0"}  # its weights are 8 of the 128 bytes read


def test_at_most_three_values_were_chosen_by_looking() -> None:
    assert len(CASE.inferred) <= 3


def test_the_rows_are_those_of_the_published_file() -> None:
    if not SHARED.is_file():
        pytest.skip("the published measurements are not beside the repository")
    mine, theirs = read_rows(CASE), read_rows(CASE, SHARED)
    assert [(r.id, r.measured) for r in mine] == [(r.id, r.measured) for r in theirs]
    assert run_case(CASE, theirs[:3]).outcomes[2].predicted == run_case(CASE, mine[:3]).outcomes[2].predicted


def layer(**changes: Any) -> Row:
    facts: dict[str, Any] = {
        "name": "l", "W": 1, "H": 1, "C": 512, "K": 64, "R": 1, "S": 1, "stride": 1, "pad_lt": 0, "out_W": 1,
        "out_H": 1, "dilation": [1, 1], "cbuf_data_banks": 1, "cbuf_weight_banks": 31, **changes,
    }  # fmt: skip
    return Row("l lat32_8Bpc", "lat32_8Bpc", 1, "cycles", facts)


def test_a_product_with_a_vector_takes_its_weights_beats() -> None:
    more, less = CASE.predict(layer(K=128)), CASE.predict(layer(K=64))
    assert more - less == 64 * 512 // 8


def test_a_layer_that_is_too_large_for_the_buffer_is_cut_into_bands() -> None:
    row = layer(W=56, H=56, C=64, R=3, S=3, pad_lt=1, out_W=56, out_H=56, cbuf_data_banks=25, cbuf_weight_banks=7)
    macs = 56 * 56 * 9 * 8 * 8
    assert macs < CASE.predict(row) < 1.05 * macs


def test_a_memory_model_of_another_form_is_refused() -> None:
    with pytest.raises(InputError, match="'fast' is no memory model; name it like lat32_4Bpc"):
        CASE.predict(Row("l", "fast", 1, "cycles", layer().facts))


@pytest.mark.parametrize("buffers", [1, 3])
def test_the_bits_of_streamed_results_are_right(buffers: int) -> None:
    """Results that leave while they are computed, through a fair bus and a write channel."""
    rng = np.random.default_rng(5)
    b = GraphBuilder("layer")
    b.input("x", TensorType((1, 6, 7, 16), I8))
    b.constant("w", TensorType((20, 3, 3, 16), I8), rng.integers(-128, 128, (20, 3, 3, 16), np.int8))
    b.constant("bias", TensorType((20,), I32), rng.integers(-9, 9, (20,), np.int32))
    b.node(
        "layer", make_op("conv2d", {"pad": [1] * 4, "stride": [1, 1], "dilation": [1, 1]}), ("x", "w", "bias"), "sums"
    )
    b.node("sdp", make_op("cast", {"out_type": "i8"}), ("sums",), "y")
    graph, chip = b.finish(("y",)), load_chip("nv_small")
    options = MappingOptions(layers={"layer": LayerOptions(tile={"oc": 8}, order=("oc",), buffers=buffers)})
    program = map_graph(graph, chip, options).program
    given = {"x": rng.integers(-128, 128, (1, 6, 7, 16), np.int8)}
    policies = overflow_policies(chip)
    outputs, _ = execute(program, given, simulate(program, chip).moments, policies)
    want = evaluate_graph(graph, given, policies)
    assert np.array_equal(outputs["y"], want["y"])
