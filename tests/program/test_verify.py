"""The verifier: sound programs pass, and every kind of violation is caught and named."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import pytest

from npusim.errors import ProgramError
from npusim.ir.box import Box
from npusim.ir.mapping_options import MappingOptions
from npusim.mapping.mapper import map_graph
from npusim.program import Command, Compute, Load, Ref, Store, TileProgram
from npusim.program.order import Order
from npusim.program.program import reads_of, writes_of
from npusim.program.verify import verify
from tests.program.programs import (
    LOADS,
    PROGRAMS,
    STORES,
    aliased,
    arranged,
    boxed,
    changed_slot,
    computes,
    halves,
    loads,
    operand,
    put,
    raw,
    ref,
    reloaded,
    resident,
    shifted,
    some_ref,
    stored,
    stores,
    tiles,
    viewed,
    without,
)
from tests.properties.chains import convolution_chain, small_chip


def caught(program: TileProgram, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        verify(program)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_sound_programs_pass(program: Callable[[], TileProgram]) -> None:
    verify(program())


# -- dependencies and slots ----------------------------------------------------------------------------------------


def test_a_dependency_that_points_forward() -> None:
    first = loads(stored())[0]
    caught(put(stored(), first._replace(deps=(5,))), "command 0 depends on 5, which is not an earlier command")


def test_a_slot_that_leaves_the_sram() -> None:
    program = stored()
    last = program.slots[0]
    end = program.sram_bytes - last.nbytes
    caught(
        changed_slot(program, 0, offset=end + 1),
        rf"slot 0 \(x\) lies at {end + 1}\.\.{program.sram_bytes + 1}, outside the SRAM of {program.sram_bytes} bytes",
    )
    caught(changed_slot(program, 0, offset=-1), r"slot 0 \(x\) lies at -1\.\.\d+, outside the SRAM")
    caught(dataclasses.replace(program, sram_bytes=1024), "outside the SRAM of 1024 bytes")


def test_a_slot_too_small_for_what_it_holds() -> None:
    caught(changed_slot(halves(), 0, nbytes=3), r"slot 0 \(x\) has 3 bytes; \[4\] stored as \[4\] of i8 takes 4")
    caught(changed_slot(halves(), 0, stored=(3,)), r"slot 0 \(x\) has 4 bytes; \[4\] stored as \[3\] of i8 takes 3")


@pytest.mark.parametrize(("field", "by"), [("offset", 16), ("nbytes", 16), ("shape", (8, 23)), ("whole", False)])
def test_a_view_that_is_not_the_memory_it_views(field: str, by: Any) -> None:
    (view,) = [s for s in viewed().slots if s.base != s.index]
    assert view.value == "flat" and view.offset == viewed().slots[view.base].offset
    wrong = getattr(view, field) + by if type(by) is int else by
    message = rf"slot {view.index} \(flat\) is no view of slot {view.base} \(narrow\)"
    caught(changed_slot(viewed(), view.index, **{field: wrong}), message)


def test_a_slot_moved_over_another_that_is_in_use() -> None:
    program = stored()
    taps, result = some_ref(computes(program)[0]).slot, stores(program)[0].ref.slot
    moved = changed_slot(program, result, offset=program.slots[taps].offset)
    caught(
        moved,
        rf"write after (read|write): command \d+ is not ordered after command \d+ \(slot ({taps}|{result}) over slot",
    )
    caught(
        changed_slot(halves(), 3, offset=8),
        r"write after read: command 4 is not ordered after command 3 \(slot 3 over slot 2\)",
    )
    caught(
        changed_slot(halves(), 1, offset=0),
        r"write after write: command 1 is not ordered after command 0 \(slot 1 over slot 0\)",
    )


# -- layers --------------------------------------------------------------------------------------------------------


def test_tiles_that_do_not_cover_the_space_exactly_once() -> None:
    program = stored()
    one, other = computes(program, 1)[:2]
    message = r"layer conv1: its tiles do not cover \[0:1, 0:12, 0:12, 0:16, 0:3, 0:3, 0:16\] exactly once"
    caught(without(program, one), message)
    caught(arranged(program, [*program, one]), message)
    caught(put(program, one._replace(box=other.box)), message)
    caught(put(program, one._replace(box=shifted(one.box, 1))), message)
    caught(put(program, one._replace(box=shifted(one.box, 3, 100))), message)
    caught(put(program, one._replace(layer=0)), "layer conv0: its tiles do not cover")


def test_tiles_that_are_no_grid_may_cover_the_space_too() -> None:
    """Four tiles in a pinwheel round a fifth: no cut goes through."""
    corners = [((0, 0), (1, 2)), ((0, 2), (2, 3)), ((2, 1), (3, 3)), ((1, 0), (3, 1)), ((1, 1), (2, 2))]
    boxes = [Box(lo, hi) for lo, hi in corners]
    verify(boxed(boxes))
    for broken in (boxes[:-1], [*boxes[:-1], Box((0, 0), (1, 1))], [*boxes[:-1], Box((1, 1), (2, 3))]):
        caught(boxed(broken), r"layer y: its tiles do not cover \[0:3, 0:3\] exactly once")


@pytest.mark.parametrize(
    ("program", "which", "first", "last"),
    [
        (stored, 0, False, False),
        (stored, 0, True, True),
        (stored, 0, False, True),
        (stored, 1, True, True),
        (stored, 1, False, False),
        (stored, 1, True, False),
        (halves, 0, False, True),
        (halves, 0, True, False),
        (halves, 1, False, False),
    ],
)
def test_flags_that_contradict_the_points_folded(
    program: Callable[[], TileProgram], which: int, first: bool, last: bool
) -> None:
    c = computes(program())[which]
    caught(
        put(program(), c._replace(first=first, last=last)),
        rf"command {c.id} of layer \w+: first={first}, last={last}, with \d+ of \d+ points folded before and \d+ after",
    )


def test_the_points_of_a_message_about_flags() -> None:
    opens, closes = computes(stored())[:2]
    caught(
        put(stored(), opens._replace(last=True)),
        "first=True, last=True, with 0 of 144 points folded before and 72 after",
    )
    caught(
        put(stored(), closes._replace(first=True)),
        "first=True, last=True, with 72 of 144 points folded before and 144 after",
    )


def test_partial_sums_out_of_order() -> None:
    turned = arranged(raw(), [computes(raw())[1], *(c for c in raw() if c != computes(raw())[1])])
    caught(turned, "command 0 of layer conv: first=False, last=True, with 0 of 16 points folded before")


def test_a_missing_accumulator_or_result() -> None:
    opens, closes = computes(stored())[:2]
    for c in (opens._replace(accumulator=None), opens._replace(result=closes.result), closes._replace(result=None)):
        caught(put(stored(), c), rf"command {c.id} of layer conv0 lacks an accumulator or a result")


def test_an_accumulation_that_nothing_closes() -> None:
    """Two tiles begin apart and go on together: each point is folded once, no output is complete."""
    program = raw()
    region = program.regions[0]
    (a, a_end, b, b_end) = computes(program)
    both = Box(a_end.box.lo, (*a_end.box.hi[:1], b_end.box.hi[1], *a_end.box.hi[2:]))

    def at(c: Compute, box: Box) -> Compute:
        operands = tuple(
            None if r is None else Ref(r.slot, x.access.footprint(region.work.index, box).clip(x.type.shape))
            for x, r in zip(region.inputs, c.operands, strict=True)
        )
        assert c.accumulator is not None
        out = region.work.write.footprint(region.work.index, box)
        accumulator = Ref(c.accumulator.slot, out)
        return c._replace(box=box, operands=operands, accumulator=accumulator, result=None, first=True, last=False)

    joined = at(a_end, both)
    kept = [c for c in program if isinstance(c, Load)]
    caught(arranged(program, [*kept, a, b, joined]), "layer conv: an accumulation is never closed")


def test_an_operand_that_is_not_what_the_box_needs() -> None:
    program = stored()
    c, other = computes(program)[:2]
    taps, weights = some_ref(c, 0), some_ref(c, 1)
    caught(put(program, operand(c, 1, None)), f"command {c.id} of layer conv0 lacks its operand w0")
    caught(put(program, operand(other, 2, None)), f"command {other.id} of layer conv0 lacks its operand b0")
    for wrong in (
        some_ref(other, 0),
        taps._replace(box=shifted(taps.box, 1)),
        Ref(taps.slot, Box(taps.box.lo, (1, 6, 12, 8))),
    ):
        caught(
            put(program, operand(c, 0, wrong)),
            rf"command {c.id} of layer conv0: its operand is x\[.*\] of i8, the region needs x\[",
        )
    caught(
        put(program, operand(c, 1, weights._replace(slot=taps.slot))),
        r"its operand is x\[.*\] of i8, the region needs w0\[",
    )


def test_an_operand_that_is_needed_only_at_the_end_may_be_missing_until_then() -> None:
    opens = computes(stored())[0]
    assert [r is None for r in opens.operands] == [False, False, True, True, True]


def test_a_result_or_accumulator_that_is_not_what_the_box_makes() -> None:
    program = stored()
    opens, closes = computes(program)[:2]
    assert opens.accumulator is not None and closes.result is not None
    sums, result = opens.accumulator, closes.result
    for wrong in (result._replace(box=shifted(result.box, 1)), result._replace(slot=sums.slot)):
        caught(
            put(program, closes._replace(result=wrong)),
            r"its result is y0\[.*\] of i(8|32), the region needs y0\[.*\] of i8",
        )
    for wrong in (sums._replace(box=shifted(sums.box, 1)), sums._replace(slot=result.slot)):
        caught(
            put(program, opens._replace(accumulator=wrong)),
            r"its accumulator is y0\[.*\] of i(8|32), the region needs y0\[.*\] of i32",
        )
    a, b = computes(resident())[1], computes(resident())[3]
    caught(put(resident(), a._replace(result=b.result), b._replace(result=a.result)), "its result is y0")


# -- SRAM ----------------------------------------------------------------------------------------------------------


def test_a_box_that_does_not_fit_its_slot() -> None:
    load = loads(halves())[0]
    for box in (Box((0,), (5,)), Box((0, 0), (1, 4))):
        caught(
            put(halves(), load._replace(parts=(Ref(0, box),))), r"command 0: box \[.*\] does not fit slot 0 of \[4\]"
        )


def test_a_box_outside_a_slot_of_the_whole_value() -> None:
    caught(reloaded(lower=(5, 9)), r"command 2: box \[5:9\] lies outside slot 1 of \[8\]")
    store = stores(resident())[1]
    assert resident().slots[store.ref.slot].whole
    outside = store.ref._replace(box=shifted(store.ref.box, 1))
    caught(put(resident(), store._replace(ref=outside)), rf"command {store.id}: box \[.*\] lies outside slot")


def test_a_read_of_what_nothing_wrote() -> None:
    caught(
        without(stored(), loads(stored())[0]),
        r"command \d+ reads \[.*\] of x in slot \d+, of which only 0 of",
    )
    store = stores(resident())[0]
    caught(
        arranged(resident(), [store, *(c for c in resident() if c != store)]),
        r"of which only 0 of \d+ elements have been written",
    )


def test_a_read_where_a_box_of_the_same_size_still_lies() -> None:
    """The slot is full, but with the tile before."""
    second = loads(halves())[1]
    c = operand(computes(halves())[1], 0, ref(0, 4, 8))
    caught(
        without(put(halves(), c), second),
        r"command 3 reads \[4:8\] of x in slot 0, of which only 0 of 4 elements have been written",
    )


def test_a_read_of_a_part_of_the_box_that_a_slot_is_laid_out_for() -> None:
    store = stores(halves())[1]
    caught(
        put(halves(), store._replace(ref=ref(3, 4, 7))), r"command 5 reads \[4:7\] of y in slot 3, of which only 0 of 3"
    )


def test_a_read_that_is_not_ordered_after_the_write() -> None:
    c = computes(halves())[0]
    caught(put(halves(), c._replace(deps=())), r"read after write: command 2 is not ordered after command 0 \(x\)")
    store = stores(stored())[0]
    (maker,) = store.deps
    caught(
        put(stored(), store._replace(deps=())),
        rf"read after write: command {store.id} is not ordered after command {maker} \(y0\)",
    )


@pytest.mark.parametrize("program", [resident, viewed], ids=lambda p: p.__name__)
def test_a_read_of_a_resident_value_before_its_last_maker(program: Callable[[], TileProgram]) -> None:
    """Its readers on another engine (the stores of y0; the table on the vector unit) wait for its makers."""
    makers = {c.id for c in computes(program())}
    reader = next(c for c in program() if not isinstance(c, Load) and c.queue.engine != "mac" and makers & {*c.deps})
    loose = reader._replace(deps=tuple(d for d in reader.deps if d not in makers))
    caught(
        put(program(), loose),
        rf"read after write: command {reader.id} is not ordered after command \d+ \((y0|narrow)\)",
    )


def test_a_write_that_is_not_ordered_after_the_last_read() -> None:
    program = stored()
    users = {c.id for c in computes(program)}
    load = next(c for c in loads(program) if users & {*c.deps})
    loose = load._replace(deps=tuple(d for d in load.deps if d not in users))
    caught(put(program, loose), rf"write after read: command {load.id} is not ordered after command \d+ \(x\)")
    c = computes(halves())[1]
    one_slot = put(halves(), c._replace(result=ref(2, 4, 8)))
    caught(one_slot, r"write after read: command 4 is not ordered after command 3 \(y\)")


def test_a_write_that_is_not_ordered_after_the_last_write() -> None:
    first, *rest = halves().commands
    for queue in (LOADS, STORES):  # even commands of one DMA queue overlap
        twice = arranged(halves(), [first, first._replace(queue=queue), *rest])
        caught(twice, r"write after write: command 1 is not ordered after command 0 \(x\)")


def test_writes_to_a_slot_of_the_whole_value() -> None:
    caught(reloaded(deps=()), r"write over an earlier slot: command 3 is not ordered after command 1 \(x\)")
    caught(reloaded(lower=(4, 8)), r"write after write: command 3 is not ordered after command 2 \(x\)")
    verify(reloaded(lower=(4, 8), deps=(2,)))
    caught(reloaded(lower=(1, 5)), r"command 3 loads \[4:8\] of x over other boxes of it")


def test_partial_sums_do_not_leave() -> None:
    program = raw()
    closes, store = computes(program)[1], stores(program)[0]
    assert closes.accumulator is not None and store.deps == (closes.id,)
    caught(
        put(program, store._replace(ref=closes.accumulator)),
        rf"command {store.id} reads partial sums of conv in slot {closes.accumulator.slot}",
    )


# -- DRAM ----------------------------------------------------------------------------------------------------------


def test_a_load_outside_its_value() -> None:
    load = loads(stored())[0]
    wrong = load.parts[0]._replace(box=shifted(load.parts[0].box, 1, -1))
    caught(
        put(stored(), load._replace(parts=(wrong, *load.parts[1:]))),
        r"command 0 loads \[0:1, -1:6, .*\] of x, which is outside it",
    )


def test_a_load_before_its_store() -> None:
    program = stored()
    load = loads(program, 1)[0]
    early = [load, *(c for c in program if c != load)]
    caught(arranged(program, early), r"command 0 loads \[.*\] of y0, which is not stored before")


def test_a_load_that_does_not_wait_for_its_store() -> None:
    program = stored()
    makers = {c.id for c in stores(program)}
    load = loads(program, 1)[0]
    loose = load._replace(deps=tuple(d for d in load.deps if d not in makers))
    assert loose != load
    caught(put(program, loose), rf"load after store: command {load.id} is not ordered after command \d+ \(y0\)")


def test_a_load_of_a_reshaped_value_waits_for_all_its_stores() -> None:
    program = aliased()
    load = next(c for c in loads(program, 1) if program.slots[c.parts[0].slot].value == "flat")
    last = stores(program)[-1]
    late = [
        *(c for c in program if c != last and c.layer == 0),
        load,
        last,
        *(c for c in program if c != load and c.layer == 1),
    ]
    caught(arranged(program, late), r"command \d+ loads flat before all of narrow is stored")
    loose = load._replace(deps=tuple(d for d in load.deps if d not in {c.id for c in stores(program)}))
    caught(put(program, loose), rf"load after store: command {load.id} is not ordered after command \d+ \(flat\)")


def test_stores_that_do_not_cover_their_value_exactly_once() -> None:
    program = stored()
    one = stores(program, 1)[-1]
    message = r"the stores of y1 do not cover its \[1, 12, 12, 16\] exactly once"
    caught(without(program, one), message)
    caught(arranged(program, [*program, one]), message)


def test_an_output_that_is_never_stored() -> None:
    caught(without(stored(), *stores(stored(), 1)), "graph output y1 is never stored")
    caught(without(resident(), *stores(resident())), "graph output y0 is never stored")


# -- everything at once --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_no_command_can_be_missed(program: Callable[[], TileProgram]) -> None:
    for c in program():
        if (program, c.id) != (reloaded, 2):  # which brings what nothing reads
            caught(without(program(), c), ".")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_no_box_can_be_another(program: Callable[[], TileProgram]) -> None:
    """Each part of each command shifted along its longest axis."""
    for c in program():
        for old in {*reads_of(c), *writes_of(c)}:
            axis = max(range(len(old.box.lo)), key=lambda i: old.box.hi[i] - old.box.lo[i])
            new = old._replace(box=shifted(old.box, axis, 1 if old.box.lo[axis] == 0 else -1))

            def swap(r: Ref | None, old: Ref = old, new: Ref = new) -> Ref | None:
                return new if r == old else r

            changed: Command
            if isinstance(c, Load):
                changed = c._replace(parts=tuple(new if r == old else r for r in c.parts))
            elif isinstance(c, Store):
                changed = c._replace(ref=new)
            else:
                changed = c._replace(
                    operands=tuple(map(swap, c.operands)), accumulator=swap(c.accumulator), result=swap(c.result)
                )
            caught(put(program(), changed), ".")


def test_the_work_grows_with_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """8192 tiles of one convolution: a bounded number of questions to the order for each command."""
    layers = {"conv0": tiles(oy=1, ox=1, oc=8, ky=3, kx=3, ic=16)}
    options = MappingOptions(residency=False, layers=layers)
    program = map_graph(convolution_chain(0, layers=1, size=64), small_chip(64 << 10), options).program
    assert len(computes(program)) == len(stores(program)) == 8192 and len(program) > 20_000
    questions = 0
    before = Order.before

    def counted(order: Order, a: int, b: int) -> bool:
        nonlocal questions
        questions += 1
        return before(order, a, b)

    monkeypatch.setattr(Order, "before", counted)
    start = time.perf_counter()
    verify(program)
    print(f"verified {len(program)} commands in {time.perf_counter() - start:.2f} s, {questions} questions")
    assert questions < 8 * len(program)
