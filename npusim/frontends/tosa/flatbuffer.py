"""Reads and writes flatbuffer tables by a list of their fields, trusting no offset and no length in a file.

The layout is that of the "FlatBuffers Internals" page of the FlatBuffers documentation: a table begins with a signed
offset back to its vtable, the vtable holds its own size, the table's size and one 16-bit offset a field (0: absent);
vectors, strings and tables are reached by unsigned 32-bit offsets relative to where the offset stands.

Offsets may share targets, so that a small hostile file can describe a huge tree. Whatever is copied out of a file is
therefore counted, and more than ``MAXIMUM_SHARING`` times its size is refused: work and memory stay linear in it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import flatbuffers
from flatbuffers import packer

from npusim.errors import FileFormatError, InputError

MAXIMUM_SHARING: Final = 2
"""How often the average byte may be read; a file whose parts share nothing needs 1."""

DAMAGED: Final = "the file is truncated or damaged: copy or export it again"


class Kind(Enum):
    """What a field holds; plural kinds are vectors. ``VIEW`` is a byte vector too large to copy."""

    BOOL = "bool"
    UINT8 = "uint8"
    INT32 = "int32"
    UINT32 = "uint32"
    UINT64 = "uint64"
    ENUMERATION = "enumeration"
    STRING = "string"
    TABLE = "table"
    INT32S = "int32 vector"
    BYTES = "byte vector"
    VIEW = "byte vector, not copied"
    STRINGS = "string vector"
    TABLES = "table vector"


Builder = Any
"""``flatbuffers.Builder``, which comes without types."""

_SCALARS: Final[dict[Kind, tuple[struct.Struct, Callable[[Builder, int, Any, Any], None]]]] = {
    Kind.BOOL: (packer.boolean, flatbuffers.Builder.PrependBoolSlot),
    Kind.UINT8: (packer.uint8, flatbuffers.Builder.PrependUint8Slot),
    Kind.INT32: (packer.int32, flatbuffers.Builder.PrependInt32Slot),
    Kind.UINT32: (packer.uint32, flatbuffers.Builder.PrependUint32Slot),
    Kind.UINT64: (packer.uint64, flatbuffers.Builder.PrependUint64Slot),
    Kind.ENUMERATION: (packer.uint32, flatbuffers.Builder.PrependUint32Slot),
}
_ABSENT: Final[dict[Kind, Any]] = {
    Kind.STRING: "",
    Kind.TABLE: None,
    Kind.INT32S: (),
    Kind.BYTES: b"",
    Kind.VIEW: b"",
    Kind.STRINGS: (),
    Kind.TABLES: (),
}
_OFFSET_BYTES: Final = 4
_BYTES_ALIGNMENT: Final = 8
"""Byte vectors are written at multiples of it, so that the numbers in them can be read in place."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a table; its flatbuffer number is its place in the table's tuple of fields.

    ``default`` is a scalar's value when absent; ``names`` are an enumeration's names, by number.
    """

    name: str
    kind: Kind
    default: int = 0
    names: tuple[str, ...] = ()

    @property
    def absent(self) -> Any:
        """The value of a field that the file leaves out."""
        if self.kind is Kind.ENUMERATION:
            return self.names[self.default]
        return bool(self.default) if self.kind is Kind.BOOL else _ABSENT.get(self.kind, self.default)


class FlatBuffer:
    """The bytes of one flatbuffer, its name for messages, and how many bytes may still be read out of it."""

    __slots__ = ("_allowance", "_strings", "data", "name", "size")

    def __init__(self, data: bytes | bytearray | memoryview, name: str) -> None:
        self.data = memoryview(data).toreadonly().cast("B")
        self.name = name
        self.size = len(self.data)
        self._allowance = MAXIMUM_SHARING * self.size
        self._strings: dict[int, str] = {}

    def root(self, identifier: str, path: str) -> Table:
        """The root table, called ``path`` in messages; the file must carry the four-letter ``identifier``."""
        if self.size < 2 * _OFFSET_BYTES:
            raise self.fault(0, path, f"{self.size} bytes are too few for a flatbuffer with an identifier (8 at least)")
        found = bytes(self.data[4:8])
        if found != identifier.encode():
            remedy = f"this is not a {identifier} file: convert the model first"
            raise self.fault(4, path, f"the identifier is {found!r} instead of {identifier!r}", remedy)
        return Table(self, self.follow(0, path), path)

    def fault(self, position: int, path: str, problem: str, remedy: str = DAMAGED) -> FileFormatError:
        """The error to raise about what stands at byte ``position``."""
        return FileFormatError([f"{self.name}: byte {position}: {path}: {problem}; {remedy}"])

    def view(self, position: int, size: int, path: str) -> memoryview:
        """``size`` bytes from ``position`` on, without a copy."""
        if position < 0 or position + size > self.size:
            raise self.fault(position, path, f"{size} bytes from there reach outside the file of {self.size} bytes")
        return self.data[position : position + size]

    def scalar(self, layout: struct.Struct, position: int, path: str) -> int:
        """The number of the given ``layout`` at ``position``."""
        if not 0 <= position <= self.size - layout.size:
            raise self.fault(position, path, f"a number there lies outside the file of {self.size} bytes")
        return int(layout.unpack_from(self.data, position)[0])

    def follow(self, position: int, path: str) -> int:
        """Where the offset at ``position`` leads to (checked by whoever reads there)."""
        return position + self.scalar(packer.uoffset, position, path)

    def vector(self, position: int, item_bytes: int, path: str) -> tuple[int, int]:
        """First byte and number of items of the vector that the offset at ``position`` leads to."""
        start = self.follow(position, path)
        count = self.scalar(packer.uoffset, start, path)
        first = start + _OFFSET_BYTES
        if first + count * item_bytes > self.size:
            problem = f"{count} items of {item_bytes} bytes reach beyond the end of the file ({self.size} bytes)"
            raise self.fault(start, path, problem)
        return first, count

    def spend(self, size: int, position: int, path: str) -> None:
        """Counts ``size`` bytes about to be copied out of the file."""
        self._allowance -= size
        if self._allowance < 0:
            problem = f"parts overlap so often that the file reads as more than {MAXIMUM_SHARING} times its size"
            raise self.fault(position, path, problem)

    def string(self, position: int, path: str) -> str:
        """The UTF-8 string that the offset at ``position`` leads to; a shared string is decoded once."""
        first, count = self.vector(position, 1, path)
        text = self._strings.get(first)
        if text is None:
            self.spend(count, first, path)
            try:
                text = str(self.data[first : first + count], "utf-8")
            except UnicodeDecodeError as error:
                raise self.fault(first + error.start, path, f"the text is not UTF-8 ({error.reason})") from None
            self._strings[first] = text
        return text


class Table:
    """One table of a file; ``path`` says in messages which one, like ``graph.regions[0].blocks[0]``."""

    __slots__ = ("_size", "_vtable", "_vtable_size", "file", "path", "position")

    def __init__(self, file: FlatBuffer, position: int, path: str) -> None:
        self.file, self.position, self.path = file, position, path
        self._vtable = position - file.scalar(packer.soffset, position, path)
        self._vtable_size = file.scalar(packer.voffset, self._vtable, path)
        self._size = file.scalar(packer.voffset, self._vtable + packer.voffset.size, path)
        if self._vtable_size < 2 * packer.voffset.size or self._vtable_size % 2:
            raise file.fault(self._vtable, path, f"a vtable of {self._vtable_size} bytes is not one")
        if self._size < packer.soffset.size:
            raise file.fault(self._vtable, path, f"a table of {self._size} bytes is not one")
        file.view(self._vtable, self._vtable_size, path)
        file.view(position, self._size, path)
        file.spend(self._size, position, path)

    def fault(self, problem: str, remedy: str = DAMAGED) -> FileFormatError:
        """The error to raise about this table."""
        return self.file.fault(self.position, self.path, problem, remedy)

    def read(self, fields: Sequence[Field]) -> dict[str, Any]:
        """All ``fields`` by name: numbers, ``bool``, ``str``, ``bytes``, ``memoryview``, tables, tuples of those.

        Fields that the file leaves out have their default, an absent table is None; fields beyond ``fields`` are
        not looked at. Raises FileFormatError when anything lies outside the file.
        """
        return {field.name: self._value(number, field) for number, field in enumerate(fields)}

    def _locate(self, number: int, size: int, path: str) -> int | None:
        entry = packer.voffset.size * (2 + number)
        if entry >= self._vtable_size:
            return None
        offset = self.file.scalar(packer.voffset, self._vtable + entry, path)
        if offset == 0:
            return None
        if offset < packer.soffset.size or offset + size > self._size:
            problem = f"its {size} bytes at offset {offset} reach outside the table of {self._size} bytes"
            raise self.file.fault(self.position + offset, path, problem)
        return self.position + offset

    def _value(self, number: int, field: Field) -> Any:
        path = f"{self.path}.{field.name}"
        layout, _ = _SCALARS.get(field.kind, (None, None))
        at = self._locate(number, layout.size if layout else _OFFSET_BYTES, path)
        if at is None:
            return field.absent
        return self._scalar(field, layout, at, path) if layout else self._referred(field.kind, at, path)

    def _scalar(self, field: Field, layout: struct.Struct, at: int, path: str) -> int | bool | str:
        value = self.file.scalar(layout, at, path)
        if field.kind is Kind.BOOL:
            return bool(value)
        if field.kind is not Kind.ENUMERATION:
            return value
        if value >= len(field.names):
            problem = f"the number {value} is unknown (0..{len(field.names) - 1} are known)"
            raise self.file.fault(at, path, problem)
        return field.names[value]

    def _referred(self, kind: Kind, at: int, path: str) -> Any:
        file = self.file
        if kind is Kind.STRING:
            return file.string(at, path)
        if kind is Kind.TABLE:
            return Table(file, file.follow(at, path), path)
        item_bytes = 1 if kind in (Kind.BYTES, Kind.VIEW) else _OFFSET_BYTES
        first, count = file.vector(at, item_bytes, path)
        if kind is Kind.VIEW:
            return file.view(first, count, path)
        file.spend(item_bytes * count, first, path)
        if kind is Kind.BYTES:
            return bytes(file.view(first, count, path))
        if kind is Kind.INT32S:
            return struct.unpack_from(f"<{count}i", file.data, first)
        items = range(first, first + item_bytes * count, item_bytes)
        if kind is Kind.STRINGS:
            return tuple(file.string(item, path) for item in items)
        return tuple(Table(file, file.follow(item, path), f"{path}[{i}]") for i, item in enumerate(items))


def write_table(builder: Builder, fields: Sequence[Field], values: Mapping[str, Any], what: str) -> int:
    """Writes one table and whatever it refers to, and returns its offset; ``what`` it is goes into messages.

    ``values`` are those that ``Table.read`` gives for ``fields``, except that tables come as the offsets of tables
    written before. Scalars that are missing or have their default are left out, as are missing tables; vectors and
    strings are written even when empty, for readers that expect them. Raises InputError for a name among ``values``
    that no field has, and for an enumeration's value that is none of its names.
    """
    unknown = values.keys() - {field.name for field in fields}
    if unknown:
        known = ", ".join(field.name for field in fields) or "none"
        raise InputError(f"{what} has no field {min(unknown)!r}; its fields are: {known}")
    slots: list[tuple[Callable[[Builder, int, Any, Any], None], int, Any, int]] = []
    for number, field in enumerate(fields):
        value = values.get(field.name, field.absent)
        if field.kind is Kind.ENUMERATION:
            value = number_of(value, field.names, f"{field.name} of {what}")
        if field.kind in _SCALARS:
            slots.append((_SCALARS[field.kind][1], number, value, field.default))
        elif value is not None:
            offset = _write_referred(builder, field.kind, value)
            slots.append((flatbuffers.Builder.PrependUOffsetTRelativeSlot, number, offset, 0))
    builder.StartObject(len(fields))
    for slot, number, value, default in slots:
        slot(builder, number, value, default)
    return int(builder.EndObject())


def number_of(name: str, names: Sequence[str], what: str) -> int:
    """The place of ``name`` among ``names``; raises InputError when ``what`` cannot have that name."""
    if name not in names:
        raise InputError(f"{what} is {name!r}; use one of {', '.join(names)}")
    return names.index(name)


def _write_referred(builder: Builder, kind: Kind, value: Any) -> int:
    if kind is Kind.TABLE:
        return int(value)
    if kind is Kind.STRING:
        return int(builder.CreateSharedString(value))
    if kind in (Kind.BYTES, Kind.VIEW):
        builder.Prep(_BYTES_ALIGNMENT, len(value))
        return int(builder.CreateByteVector(bytes(value)))
    prepend, items = builder.PrependUOffsetTRelative, value
    if kind is Kind.INT32S:
        prepend = builder.PrependInt32
    elif kind is Kind.STRINGS:
        items = [builder.CreateSharedString(text) for text in value]
    builder.StartVector(_OFFSET_BYTES, len(items), _OFFSET_BYTES)
    for item in reversed(items):
        prepend(item)
    return int(builder.EndVector())
