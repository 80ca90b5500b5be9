"""The SRAM as bytes with a valid bit each, read and written through slots."""

from __future__ import annotations

import numpy as np

from npusim.errors import ReadinessError
from npusim.ir.box import Box
from npusim.ir.tensor import packed_bytes
from npusim.numerics.packing import pack, unpack
from npusim.numerics.types import I48, Array, DType
from npusim.program.program import Ref, Slot, TileProgram


class SramBytes:
    """A byte array of the chip's size. Sub-byte elements are packed; an int48 takes six bytes."""

    def __init__(self, program: TileProgram) -> None:
        self.slots = program.slots
        self.data = np.zeros(program.sram_bytes, np.uint8)
        self.valid = np.zeros(program.sram_bytes, np.bool_)

    def read(self, ref: Ref, command: int) -> Array:
        """A copy of the elements at ``ref``; ReadinessError if a byte of them was never written."""
        slot = self.slots[ref.slot]
        stored, within = _layout(slot, ref.box)
        size = packed_bytes(int(np.prod(stored, dtype=np.int64)), slot.dtype)
        lo, hi = slot.offset, slot.offset + size
        width = _element_bytes(slot)
        if width:
            view = self._bytes(self.data, lo, hi, stored, width)[within]
            ready = bool(self._bytes(self.valid, lo, hi, stored, width)[within].all())
            array = unpack(np.ascontiguousarray(view).reshape(-1), ref.box.shape, slot.dtype)
        else:
            ready = bool(self.valid[lo:hi][_bytes_touched(stored, within, slot.dtype)].all())
            array = unpack(self.data[lo:hi], stored, slot.dtype)[within].copy()
        if not ready:
            raise ReadinessError(
                f"command {command} reads {slot.value}{ref.box} in slot {slot.index} before all of it is there"
            )
        return array if array.base is None else array.copy()

    def write(self, ref: Ref, array: Array) -> None:
        """Write ``array`` at ``ref`` and mark its bytes valid.

        The other bytes of a slot that holds one box at a time go invalid.
        """
        slot = self.slots[ref.slot]
        stored, within = _layout(slot, ref.box)
        size = packed_bytes(int(np.prod(stored, dtype=np.int64)), slot.dtype)
        lo, hi = slot.offset, slot.offset + size
        if not slot.whole:
            self.valid[lo : slot.offset + slot.nbytes] = False
        width = _element_bytes(slot)
        if width:
            packed = pack(array, slot.dtype).reshape(*ref.box.shape, width)
            self._bytes(self.data, lo, hi, stored, width)[within] = packed
            self._bytes(self.valid, lo, hi, stored, width)[within] = True
        else:
            whole = unpack(self.data[lo:hi], stored, slot.dtype).copy()
            whole[within] = array
            self.data[lo:hi] = pack(whole, slot.dtype)
            self.valid[lo:hi] |= _bytes_touched(stored, within, slot.dtype)

    @staticmethod
    def _bytes(memory: Array, lo: int, hi: int, stored: tuple[int, ...], width: int) -> Array:
        return memory[lo:hi].reshape(*stored, width)


def _element_bytes(slot: Slot) -> int:
    """Bytes of an element, or 0 where several share a byte."""
    return 6 if slot.dtype is I48 else slot.dtype.bits // 8


def _bytes_touched(stored: tuple[int, ...], within: tuple[slice, ...], dtype: DType) -> Array:
    """Which of the bytes that sub-byte elements of shape ``stored`` are packed into hold some of those ``within``."""
    elements = np.zeros(stored, np.bool_)
    elements[within] = True
    return np.asarray(pack(elements, dtype) != 0)


def _layout(slot: Slot, box: Box) -> tuple[tuple[int, ...], tuple[slice, ...]]:
    """The shape in which the slot's bytes are laid out for ``box``, and where the box lies in it.

    A slot that holds the whole value keeps that layout; any other is laid out for the box it holds, with the slot's
    row pitch.
    """
    if slot.whole:
        return slot.stored, box.slices
    shape = box.shape
    return (*shape[:-1], *slot.stored[-1:]), tuple(slice(0, n) for n in shape)
