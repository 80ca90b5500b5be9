"""The SRAM's bytes against plain numpy arrays: packing, layouts, valid bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.errors import ReadinessError
from npusim.functional.memory import SramBytes
from npusim.ir.box import Box
from npusim.ir.tensor import TensorType
from npusim.numerics.packing import pack
from npusim.numerics.types import BOOL, DTYPES, I4, I8, I16, I32, I48, U1, Array, DType
from npusim.program import Ref, Slot
from tests.plain import program

TYPES = [BOOL, U1, I4, I8, I16, I32, I48]


def slot(
    dtype: DType, shape: tuple[int, ...], offset: int = 0, whole: bool = True, pitch: int | None = None, index: int = 0
) -> Slot:
    """A slot whose rows take ``pitch`` elements (None: as many as they have)."""
    stored = shape if pitch is None else (*shape[:-1], pitch)
    return Slot(index, offset, TensorType(stored, dtype).packed_bytes, "v", dtype, shape, stored, whole, index)


def sram(*slots: Slot, size: int = 256) -> SramBytes:
    return SramBytes(program(slots=slots, sram_bytes=size))


def values(dtype: DType, shape: tuple[int, ...], seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    return rng.integers(dtype.minimum, dtype.maximum, shape, np.int64, endpoint=True).astype(dtype.storage)


def test_the_memory_starts_empty() -> None:
    memory = sram(slot(I8, (4,)), size=10)
    assert memory.data.tolist() == [0] * 10
    assert not memory.valid.any()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_a_tensor_lies_packed_at_its_offset(dtype: DType) -> None:
    s = slot(dtype, (3, 5), offset=16)
    memory, x = sram(s), values(dtype, (3, 5))
    memory.write(Ref(0, Box.whole(s.shape)), x)
    packed = pack(x, dtype)
    assert len(packed) == s.nbytes
    assert memory.data[16 : 16 + s.nbytes].tolist() == packed.tolist()
    assert memory.valid.nonzero()[0].tolist() == list(range(16, 16 + s.nbytes))


def test_int48_takes_six_bytes_little_endian() -> None:
    memory = sram(slot(I48, (2,)))
    memory.write(Ref(0, Box((0,), (2,))), np.array([-2, 0x123456789ABC], np.int64))
    assert memory.data[:12].tobytes().hex() == "feffffffffff" + "bc9a78563412"
    assert memory.valid.sum() == 12


@st.composite
def boxes(draw: st.DrawFn, shape: tuple[int, ...]) -> Box:
    lo = [draw(st.integers(0, n - 1)) for n in shape]
    return Box(tuple(lo), tuple(draw(st.integers(a + 1, n)) for a, n in zip(lo, shape, strict=True)))


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(TYPES))
def test_boxes_of_a_whole_slot_are_written_and_read_like_those_of_an_array(data: st.DataObject, dtype: DType) -> None:
    """Against a numpy array with a flag per element; a byte that elements share is valid once one of them is."""
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    s = slot(dtype, shape, offset=3, pitch=shape[-1] + data.draw(st.integers(0, 3)))
    memory = sram(s, size=2000)
    want, written = np.zeros(shape, dtype.storage), np.zeros(shape, np.bool_)
    for k in range(data.draw(st.integers(1, 5))):
        box = data.draw(boxes(shape))
        x = values(dtype, box.shape, seed=k)
        memory.write(Ref(0, box), x)
        want[box.slices], written[box.slices] = x, True
        box = data.draw(boxes(shape))
        if written[box.slices].all():
            got = memory.read(Ref(0, box), 0)
            assert got.dtype == dtype.storage
            np.testing.assert_array_equal(got, want[box.slices])
        elif dtype.bits >= 8:
            with pytest.raises(ReadinessError):
                memory.read(Ref(0, box), 0)
    assert not memory.valid[:3].any()
    assert not memory.valid[3 + s.nbytes :].any()


@settings(max_examples=100, deadline=None)
@given(st.data(), st.sampled_from(TYPES))
def test_a_slot_of_single_boxes_is_laid_out_for_the_box_it_holds(data: st.DataObject, dtype: DType) -> None:
    """Boxes anywhere in the value; the rows of a smaller one keep the slot's pitch and stand close together."""
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    s = slot(dtype, shape, offset=5, whole=False, pitch=-(-shape[-1] // 4) * 4)
    memory = sram(s, size=2000)
    for k in range(3):
        lo = tuple(data.draw(st.integers(0, 100)) for _ in shape)
        extent = tuple(data.draw(st.integers(1, n)) for n in shape)
        box = Box(lo, tuple(a + n for a, n in zip(lo, extent, strict=True)))
        x = values(dtype, box.shape, seed=k)
        memory.write(Ref(0, box), x)
        np.testing.assert_array_equal(memory.read(Ref(0, box), 0), x)
        assert not memory.valid[5 + s.nbytes :].any()
    rows = np.zeros((*box.shape[:-1], s.stored[-1]), dtype.storage)
    rows[..., : box.shape[-1]] = x
    held = memory.valid[5 : 5 + s.nbytes]
    packed = pack(rows, dtype)
    if dtype.bits >= 8:
        assert memory.data[5 : 5 + len(packed)][held[: len(packed)]].tolist() == packed[held[: len(packed)]].tolist()
        assert held.sum() == TensorType(box.shape, dtype).packed_bytes


def test_a_second_box_makes_the_rest_of_the_first_invalid() -> None:
    memory = sram(slot(I8, (4,), whole=False))
    memory.write(Ref(0, Box((0,), (4,))), np.arange(4, dtype=np.int8))
    memory.write(Ref(0, Box((8,), (10,))), np.array([8, 9], np.int8))
    assert memory.read(Ref(0, Box((8,), (10,))), 0).tolist() == [8, 9]
    assert memory.valid[:4].tolist() == [True, True, False, False]
    with pytest.raises(ReadinessError):
        memory.read(Ref(0, Box((0,), (4,))), 0)


def test_a_whole_slot_keeps_its_other_boxes() -> None:
    memory = sram(slot(I8, (4,)))
    memory.write(Ref(0, Box((0,), (2,))), np.array([1, 2], np.int8))
    memory.write(Ref(0, Box((2,), (4,))), np.array([3, 4], np.int8))
    assert memory.read(Ref(0, Box((0,), (4,))), 0).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(("dtype", "written", "valid"), [(I4, 2, 1), (I4, 3, 2), (U1, 8, 1), (U1, 9, 2)])
def test_only_bytes_that_were_written_are_valid(dtype: DType, written: int, valid: int) -> None:
    """The first elements of a packed slot do not vouch for the others."""
    memory = sram(slot(dtype, (32,)))
    memory.write(Ref(0, Box((0,), (written,))), values(dtype, (written,)))
    assert memory.valid.sum() == valid
    memory.read(Ref(0, Box((0,), (written,))), 0)
    with pytest.raises(ReadinessError):
        memory.read(Ref(0, Box((0,), (17,))), 0)


def test_neighbours_in_a_shared_byte_survive_a_write() -> None:
    memory = sram(slot(I4, (4,)), slot(U1, (12,), offset=8, index=1))
    for k, x in enumerate([-7, 7, -1, 3]):
        memory.write(Ref(0, Box((k,), (k + 1,))), np.array([x], np.int8))
    assert memory.read(Ref(0, Box((0,), (4,))), 0).tolist() == [-7, 7, -1, 3]
    assert memory.data[:2].tobytes().hex() == "793f"
    for k in range(12):
        memory.write(Ref(1, Box((k,), (k + 1,))), np.array([k % 3 == 0], np.uint8))
    assert memory.read(Ref(1, Box((0,), (12,))), 0).tolist() == [1, 0, 0] * 4


def test_a_read_before_all_is_there_says_who_reads_what_and_where() -> None:
    memory = sram(slot(I16, (2, 3)))
    memory.write(Ref(0, Box((0, 0), (1, 3))), np.zeros((1, 3), np.int16))
    with pytest.raises(ReadinessError) as caught:
        memory.read(Ref(0, Box((0, 1), (2, 3))), command=17)
    assert str(caught.value) == "command 17 reads v[0:2, 1:3] in slot 0 before all of it is there"


def test_what_was_read_is_a_copy() -> None:
    memory = sram(slot(I8, (4,)))
    memory.write(Ref(0, Box((0,), (4,))), np.arange(4, dtype=np.int8))
    got = memory.read(Ref(0, Box((0,), (4,))), 0)
    memory.write(Ref(0, Box((0,), (4,))), np.zeros(4, np.int8))
    assert got.tolist() == [0, 1, 2, 3]


def test_two_slots_over_the_same_bytes_see_each_others_writes() -> None:
    memory = sram(slot(I8, (4,)), slot(I32, (1,), index=1))
    memory.write(Ref(1, Box((0,), (1,))), np.array([0x04030201], np.int32))
    assert memory.read(Ref(0, Box((0,), (4,))), 0).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("name", [n for n in DTYPES if n != "f32"])
def test_a_scalar_is_a_tensor_too(name: str) -> None:
    dtype = DTYPES[name]
    memory = sram(slot(dtype, ()))
    memory.write(Ref(0, Box((), ())), np.array(1, dtype.storage))
    assert memory.read(Ref(0, Box((), ())), 0) == 1
