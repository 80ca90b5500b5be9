"""A sample of TOSA's integer conformance suite through tiles: on bytes of SRAM, in the order that was timed."""

from __future__ import annotations

from pathlib import Path

import pytest

from npusim.errors import FileFormatError, InvalidGraphError
from npusim.frontends.tosa import load_tosa
from scripts.tosa_oracle.case import differences, read_case, read_inputs, run_tiles

SAMPLE = Path(__file__).resolve().parents[3] / "shared" / "conformance"
FOLDERS = sorted(p.parent for p in SAMPLE.glob("*/*/desc.json"))
REASON = f"the conformance sample is absent: no {SAMPLE}"
ABSENT = pytest.param(None, marks=pytest.mark.skip(reason=REASON))


@pytest.mark.skipif(not FOLDERS, reason=REASON)
def test_the_sample_is_whole() -> None:
    assert len(FOLDERS) == 744
    assert sum(read_case(folder).refused for folder in FOLDERS) == 165


@pytest.mark.parametrize("folder", FOLDERS or [ABSENT], ids=lambda folder: folder and folder.name)
def test_bits_in_timed_order(folder: Path) -> None:
    """Outputs equal the reference model's, of an inexact rescale within one; ERRORIF tests are refused.

    Every test of the sample has tiles that fit the SRAM of ``micro``.
    """
    case = read_case(folder)
    if case.refused:
        with pytest.raises((InvalidGraphError, FileFormatError), match="test.tosa: "):
            load_tosa(case.file)
        return
    graph = load_tosa(case.file)
    chip, outputs = run_tiles(graph, read_inputs(case, graph))
    assert differences(case, outputs) == []
    assert chip == "micro"
