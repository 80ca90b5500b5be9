"""Tests of TABLE."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from npusim.errors import InvalidGraphError, UnpredictableError
from npusim.ir.tensor import TensorType
from npusim.numerics.types import DTYPES, I8, I16, Array, DType
from npusim.ops.table import Table
from tests.ops.elementwise import run
from tests.ops.tiling import check_tiled, random_array, random_tiles


def interpolate(x: int, table: Sequence[int]) -> int:
    segment, fraction = divmod(x + 32768, 128)
    return table[segment] * 128 + (table[segment + 1] - table[segment]) * fraction


def random_table(rng: np.random.Generator, dtype: DType) -> Array:
    """Any int8 entries; int16 entries that are never more than int16's range apart."""
    if dtype is I8:
        return random_array(rng, TensorType((256,), I8))
    return rng.integers(-16384, 16384, 513).astype(np.int16)


def test_types() -> None:
    legal = {("i8", "i8"): "i8", ("i16", "i16"): "i32"}
    for x in DTYPES.values():
        for t in DTYPES.values():
            kinds = [TensorType((2,), x), TensorType((513 if x is I16 else 256,), t)]
            if (x.name, t.name) in legal:
                assert Table().bind(kinds).output == TensorType((2,), DTYPES[legal[x.name, t.name]])
            else:
                with pytest.raises(InvalidGraphError, match=f"^table: no type rule for input {x}, table {t}"):
                    Table().bind(kinds)


@pytest.mark.parametrize("dtype", [I8, I16], ids=str)
def test_oracle_and_tilings(dtype: DType) -> None:
    rng = np.random.default_rng(3)
    for rank in range(6):
        kind = TensorType(tuple(int(n) for n in rng.integers(1, 5, rank)), dtype)
        x, table = random_array(rng, kind), random_table(rng, dtype)
        types = [kind, TensorType(table.shape, dtype)]
        out = check_tiled(Table(), [x, table], types, random_tiles(rng, Table().bind(types).work))
        entries = table.tolist()
        look_up = [entries[v + 128] if dtype is I8 else interpolate(v, entries) for v in x.ravel().tolist()]
        assert out.ravel().tolist() == look_up


def test_every_int8() -> None:
    table = random_table(np.random.default_rng(4), I8)
    assert run(Table(), list(range(-128, 128)), table, types=[I8, I8]).tolist() == table.tolist()


def test_every_int16() -> None:
    entries = random_table(np.random.default_rng(5), I16).tolist()
    out = run(Table(), np.arange(-32768, 32768).reshape(2, 32768), entries, types=[I16, I16])
    assert out.ravel().tolist() == [interpolate(x, entries) for x in range(-32768, 32768)]


@pytest.mark.parametrize("low, high", [(-32768, -1), (0, 32767), (-1, 32766), (32767, 0)])
def test_steepest_legal_slopes_over_a_segment(low: int, high: int) -> None:
    entries = [low, high] * 256 + [low]
    x = list(range(-32768, -32768 + 256))
    assert run(Table(), x, entries, types=[I16, I16]).tolist() == [interpolate(v, entries) for v in x]


@pytest.mark.parametrize("low, high", [(-1, 32767), (32767, -2)])
def test_a_slope_outside_int16_is_unpredictable_where_an_input_needs_it(low: int, high: int) -> None:
    entries = [0] * 256 + [low, high] + [high] * 255
    assert run(Table(), [-129, 128 + 128], entries, types=[I16, I16]).tolist()[1] == high * 128
    message = rf"^table: the slope of the input's table segment must fit i16, got {high - low} at output index \[1\]"
    with pytest.raises(UnpredictableError, match=message):
        run(Table(), [-129, 127], entries, types=[I16, I16])


@pytest.mark.parametrize("dtype, size", [(I8, 255), (I8, 513), (I16, 256), (I16, 512)])
def test_rule_table_size(dtype: DType, size: int) -> None:
    with pytest.raises(InvalidGraphError, match=rf"^table: .* \(rule table_size\), got table \[{size}\] for {dtype}"):
        Table().bind([TensorType((2,), dtype), TensorType((size,), dtype)])
