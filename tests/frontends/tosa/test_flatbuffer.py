"""The generic reader and writer of tables: round trip, defaults, and every way in which a file can be wrong."""

from __future__ import annotations

import struct
from typing import Any

import flatbuffers
import pytest

from npusim.errors import FileFormatError, InputError
from npusim.frontends.tosa.flatbuffer import Field, FlatBuffer, Kind, write_table

COLOURS = ("NONE", "RED", "BLUE")
FIELDS = (
    Field("flag", Kind.BOOL, 1),
    Field("small", Kind.UINT8),
    Field("signed", Kind.INT32, -1),
    Field("large", Kind.UINT64),
    Field("colour", Kind.ENUMERATION, names=COLOURS),
    Field("text", Kind.STRING),
    Field("numbers", Kind.INT32S),
    Field("copied", Kind.BYTES),
    Field("viewed", Kind.VIEW),
    Field("texts", Kind.STRINGS),
    Field("child", Kind.TABLE),
    Field("children", Kind.TABLES),
)
VALUES = {
    "flag": False,
    "small": 255,
    "signed": -(2**31),
    "large": 2**64 - 1,
    "colour": "BLUE",
    "text": "größe",
    "numbers": (-1, 2**31 - 1),
    "copied": b"abc",
    "viewed": b"defgh",
    "texts": ("a", "", "a"),
}
CHILD = (Field("value", Kind.INT32),)


def file_of(**values: Any) -> bytes:
    builder = flatbuffers.Builder()
    children = [write_table(builder, CHILD, {"value": value}, "a child") for value in values.pop("children", ())]
    values |= {"children": children, "child": children[-1] if children else None}
    builder.Finish(write_table(builder, FIELDS, values, "the root"), b"TEST")
    return bytes(builder.Output())


def read(data: bytes, fields: tuple[Field, ...] = FIELDS) -> dict[str, Any]:
    return FlatBuffer(data, "f.bin").root("TEST", "root").read(fields)


def patched(data: bytes, position: int, layout: str, value: int) -> bytes:
    return data[:position] + struct.pack(layout, value) + data[position + struct.calcsize(layout) :]


def field_position(data: bytes, number: int) -> int:
    root = struct.unpack_from("<I", data)[0]
    vtable = root - struct.unpack_from("<i", data, root)[0]
    return int(root + struct.unpack_from("<H", data, vtable + 4 + 2 * number)[0])


def number_of_field(name: str) -> int:
    return [field.name for field in FIELDS].index(name)


def test_what_is_written_is_read() -> None:
    values = read(file_of(**VALUES, children=(5, 6)))
    children, child = values.pop("children"), values.pop("child")
    assert values == VALUES
    assert [table.read(CHILD)["value"] for table in children] == [5, 6]
    assert child.read(CHILD) == {"value": 6}


def test_absent_fields_have_their_defaults() -> None:
    builder = flatbuffers.Builder()
    builder.StartObject(0)
    builder.Finish(builder.EndObject(), b"TEST")
    assert read(bytes(builder.Output())) == {
        "flag": True,
        "small": 0,
        "signed": -1,
        "large": 0,
        "colour": "NONE",
        "text": "",
        "numbers": (),
        "copied": b"",
        "viewed": b"",
        "texts": (),
        "child": None,
        "children": (),
    }


def test_views_share_the_bytes_of_the_file_and_byte_vectors_are_aligned() -> None:
    data = file_of(viewed=b"x" * 100, copied=b"abc")
    viewed = read(data)["viewed"]
    assert viewed.obj is data
    assert viewed.readonly
    assert data.index(b"x" * 100) % 8 == 0
    assert data.index(b"abc") % 8 == 0


def test_a_mutable_buffer_gives_read_only_views() -> None:
    assert read(bytearray(file_of(viewed=b"x")))["viewed"].readonly  # type: ignore[arg-type]


def test_names_that_no_field_has_are_refused_by_the_writer() -> None:
    with pytest.raises(InputError, match=r"the root has no field 'colur'; its fields are: flag, .*, colour"):
        file_of(colur="RED")
    with pytest.raises(InputError, match="colour of the root is 'GREEN'; use one of NONE, RED, BLUE"):
        file_of(colour="GREEN")


@pytest.mark.parametrize("size", range(8))
def test_a_file_too_short_for_an_identifier(size: int) -> None:
    with pytest.raises(FileFormatError, match=rf"f\.bin: byte 0: root: {size} bytes are too few .* truncated"):
        read(file_of()[:size])


def test_another_identifier() -> None:
    with pytest.raises(FileFormatError, match=r"byte 4: root: the identifier is b'TFL3' instead of 'TEST'; .*convert"):
        read(file_of().replace(b"TEST", b"TFL3"))


def test_every_truncation_is_an_error() -> None:
    """All parts of the file stand before the last byte of the last part, so a shorter file always lacks something."""
    data = file_of(**VALUES, children=(5, 6)).rstrip(b"\0")
    for size in range(len(data)):
        with pytest.raises(FileFormatError, match="truncated or damaged"):
            tables = read(data[:size])
            for table in (*tables["children"], tables["child"]):
                table.read(CHILD)


@pytest.mark.parametrize(
    ("layout", "at", "value", "message"),
    [
        ("<I", 0, 2**32 - 1, r"byte 4294967295: root: a number there lies outside"),
        ("<i", "root", -(2**31), r"byte \d+: root: a number there lies outside"),
        ("<i", "root", 2**31 - 1, r"byte -\d+: root: a number there lies outside"),
        ("<H", "vtable", 3, r"root: a vtable of 3 bytes is not one"),
        ("<H", "vtable", 0, r"root: a vtable of 0 bytes is not one"),
        ("<H", "vtable", 65534, r"root: 65534 bytes from there reach outside the file"),
        ("<H", "table", 3, r"root: a table of 3 bytes is not one"),
        ("<H", "table", 65535, r"root: 65535 bytes from there reach outside the file"),
        ("<H", "table", 4, r"root\.flag: its 1 bytes at offset \d+ reach outside the table of 4 bytes"),
        ("<H", "flag entry", 2, r"root\.flag: its 1 bytes at offset 2 reach outside the table"),
    ],
)
def test_damaged_tables(layout: str, at: int | str, value: int, message: str) -> None:
    data = file_of(**VALUES)
    root = struct.unpack_from("<I", data)[0]
    vtable = root - struct.unpack_from("<i", data, root)[0]
    positions = {"root": root, "vtable": vtable, "table": vtable + 2, "flag entry": vtable + 4}
    with pytest.raises(FileFormatError, match=message):
        read(patched(data, at if isinstance(at, int) else positions[at], layout, value))


@pytest.mark.parametrize(
    ("name", "item_bytes"),
    [("text", 1), ("numbers", 4), ("copied", 1), ("viewed", 1), ("texts", 4), ("children", 4)],
)
def test_a_vector_longer_than_the_file(name: str, item_bytes: int) -> None:
    data = file_of(**VALUES, children=(1,))
    at = field_position(data, number_of_field(name))
    vector = at + struct.unpack_from("<I", data, at)[0]
    message = rf"byte {vector}: root\.{name}: 4294967295 items of {item_bytes} bytes reach beyond the end of the file"
    with pytest.raises(FileFormatError, match=message):
        read(patched(data, vector, "<I", 2**32 - 1))


@pytest.mark.parametrize("name", ["text", "numbers", "copied", "viewed", "texts", "child", "children"])
def test_an_offset_outside_the_file(name: str) -> None:
    data = file_of(**VALUES, children=(1,))
    at = field_position(data, number_of_field(name))
    with pytest.raises(FileFormatError, match=rf"root\.{name}: a number there lies outside the file"):
        read(patched(data, at, "<I", len(data)))


def test_an_unknown_number_of_an_enumeration() -> None:
    data = file_of(**VALUES)
    at = field_position(data, number_of_field("colour"))
    with pytest.raises(
        FileFormatError, match=rf"byte {at}: root\.colour: the number 3 is unknown \(0\.\.2 are known\)"
    ):
        read(patched(data, at, "<I", 3))


def test_text_that_is_not_utf8() -> None:
    data = file_of(text="word")
    with pytest.raises(FileFormatError, match=rf"byte {data.index(b'word') + 1}: root\.text: the text is not UTF-8"):
        read(data.replace(b"word", b"w\xffrd"))


def test_shared_strings_are_one_object() -> None:
    first, _, last = read(file_of(**VALUES))["texts"]
    assert first is last


def test_a_small_file_that_shares_its_parts_to_look_huge_is_refused() -> None:
    """Ten levels of tables, each with 1000 children that are one and the same: 10**30 tables in 40 kB."""
    fields = (Field("children", Kind.TABLES),)
    builder = flatbuffers.Builder()
    table = write_table(builder, fields, {}, "the leaf")
    for _ in range(10):
        table = write_table(builder, fields, {"children": [table] * 1000}, "a level")
    builder.Finish(table, b"TEST")

    def walk(values: dict[str, Any]) -> None:
        for child in values["children"]:
            walk(child.read(fields))

    with pytest.raises(
        FileFormatError, match="parts overlap so often that the file reads as more than 2 times its size"
    ):
        walk(read(bytes(builder.Output()), fields))


def test_overlapping_strings_are_refused() -> None:
    """Offsets into one long run of lengths: each leads to a string of its own, and together they are quadratic."""
    builder = flatbuffers.Builder()
    run = struct.pack("<I", 0x0710) * 1000
    blob = builder.CreateByteVector(run)
    builder.StartVector(4, 400, 4)
    for i in range(400):
        builder.PrependUOffsetTRelative(blob - 4 - 4 * i)
    texts = builder.EndVector()
    builder.StartObject(1)
    builder.PrependUOffsetTRelativeSlot(0, texts, 0)
    builder.Finish(builder.EndObject(), b"TEST")
    with pytest.raises(FileFormatError, match="parts overlap so often"):
        read(bytes(builder.Output()), (Field("texts", Kind.STRINGS),))
