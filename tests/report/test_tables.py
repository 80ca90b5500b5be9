"""Tables: contents, order, and that they stay readable at the widths of terminals."""

from __future__ import annotations

import dataclasses
import io

import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType

from npusim.errors import InputError
from npusim.report.result import Report
from npusim.report.tables import SORT_KEYS, engine_table, layer_table, totals_table


def printed(renderable: RenderableType, width: int) -> list[str]:
    """The lines printed on a terminal of ``width`` columns, with its escape codes left out."""
    console = Console(file=io.StringIO(), width=width, color_system=None, highlight=False)
    console.print(renderable)
    lines = console.file.getvalue().split("\n")  # type: ignore[attr-defined]
    return [line.rstrip() for line in lines]


def rows(lines: list[str]) -> list[str]:
    """The lines between the rule below the header and the notes."""
    rule = next(i for i, line in enumerate(lines) if line.startswith("──"))
    end = next(i for i, line in enumerate(lines) if line.startswith("#: order"))
    return lines[rule + 1 : end]


@pytest.mark.parametrize("width", [80, 100, 120, 200])
@pytest.mark.parametrize("layers", [1, 5, 30, 100])
def test_tables_fit_their_width(make_report, layers: int, width: int) -> None:  # type: ignore[no-untyped-def]
    report = make_report(layers)
    for table in (layer_table(report), engine_table(report), totals_table(report)):
        assert max(cell_len(line) for line in printed(table, width)) <= width
    lines = rows(printed(layer_table(report, "order"), width))
    assert len(lines) == layers
    for line, layer in zip(lines, report.layers, strict=True):
        assert layer.name in line
        assert f" {layer.cycles:,} " in line


def test_columns_and_notes_follow_the_width(make_report) -> None:  # type: ignore[no-untyped-def]
    report = make_report(30)
    narrow, wide = ("\n".join(printed(layer_table(report), w)) for w in (80, 200))
    assert "Tile" in wide and "conv2d+rescale+clamp" in wide and "oy4 ox28 oc32 ky3 kx3 ic16" in wide
    assert "Not shown for lack of width" not in wide
    assert "oy4" not in narrow
    assert "Not shown for lack of width, but in layers.csv: operators" in " ".join(narrow.split())
    for text in (narrow, wide):
        flat = " ".join(text.split())
        assert "Share: of the run's cycles." in flat
        assert "Util.: work done, of the most its engine could do while the layer lasted." in flat
        assert "compute = its unit works, limited by its own rate" in flat


def test_worst_first(make_report) -> None:  # type: ignore[no-untyped-def]
    report = make_report(30)
    layers = report.layers
    keys = {
        "order": range(30),
        "cycles": sorted(range(30), key=lambda i: -layers[i].cycles),
        "utilization": sorted(range(30), key=lambda i: layers[i].utilization),
        "dram": sorted(range(30), key=lambda i: -(layers[i].dram_read_bytes + layers[i].dram_write_bytes)),
    }
    assert set(keys) == set(SORT_KEYS)
    for key, order in keys.items():
        assert [int(line.split()[0]) for line in rows(printed(layer_table(report, key), 120))] == list(order)
    assert printed(layer_table(report), 120) == printed(layer_table(report, "cycles"), 120)


def test_an_unknown_sort_key_is_refused(make_report) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match="sort 'size': .* use one of order, cycles, utilization, dram"):
        layer_table(make_report(1), "size")


def test_long_and_hostile_names(make_report) -> None:  # type: ignore[no-untyped-def]
    report: Report = make_report(2)
    names = ("model/" + "very_long_scope/" * 12 + "conv_1", "[red]x[/red]\x1b[2J")
    layers = tuple(dataclasses.replace(x, name=n) for x, n in zip(report.layers, names, strict=True))
    report = dataclasses.replace(report, layers=layers)
    lines = printed(layer_table(report, "order"), 80)
    first, second = rows(lines)
    assert "model/" in first and "…" in first and "conv_1" in first
    assert "[red]x[/red]" in second
    assert not any("\x1b" in line for line in lines)
    assert max(map(cell_len, lines)) <= 80


def test_the_figures_of_a_layer(make_report) -> None:  # type: ignore[no-untyped-def]
    report: Report = make_report(1)
    layer = dataclasses.replace(
        report.layers[0],
        cycles=1234,
        bound_cycles=777,
        estimate_cycles=888,
        cycles_by_cause={"dram_read": 1234},
        bound_by="dram_read",
        utilization=0.25,
        dram_read_bytes=1536,
        dram_write_bytes=0,
    )
    totals = dataclasses.replace(report.totals, cycles=4936)
    report = dataclasses.replace(report, layers=(layer,), totals=totals)
    (line,) = rows(printed(layer_table(report), 100))
    assert " ".join(line.split()) == "0 block_0/expand mac 1,234 777 888 25.0 25.0 1.50 KiB 0 B DRAM read"
    (line,) = rows(printed(layer_table(report), 72))  # the closed forms stay beside the cycles
    assert " ".join(line.split()) == "0 block_0/expand 1,234 777 888 25.0 25.0 DRAM read"


def test_totals(make_report) -> None:  # type: ignore[no-untyped-def]
    report: Report = make_report(5)
    text = "\n".join(printed(totals_table(report), 120))
    t = report.totals
    for value in (
        f"{t.cycles:,}",
        f"{t.macs:,}",
        f"{t.useful_macs:,}",
        "62.5 %",
        "684 KiB of 1.00 MiB (66.8 %)",
        "at 1 GHz",
    ):
        assert value in text
    assert f"{1e9 / t.cycles:,.1f} runs/s" in text


def test_engines_show_percent_and_cycles_of_each_cause(make_report) -> None:  # type: ignore[no-untyped-def]
    report: Report = make_report(5)
    lines = printed(engine_table(report), 120)
    at = next(i for i, line in enumerate(lines) if line.startswith("dma0"))
    assert " ".join(lines[at].split()) == "dma0 60.0 % 0.0 % 0.0 % 20.0 % 10.0 % 10.0 %"
    dma = report.engines[0]
    shown = [int(n.replace(",", "")) for n in lines[at + 1].split()]
    assert shown == [dma.busy_cycles, 0, 0, *dma.stalled_cycles.values(), dma.idle_cycles]
    assert sum(shown) == report.totals.cycles
    text = " ".join(" ".join(lines).split())
    assert "sram" not in text  # no engine lost cycles to it
    assert "dram bus = its turn on the DRAM bus" in text
    assert "Idle: it has no command left." in text


def test_engines_round_cycles_where_there_is_no_room(make_report) -> None:  # type: ignore[no-untyped-def]
    report: Report = make_report(5)
    engine = dataclasses.replace(
        report.engines[0], busy_cycles=3 * 10**15, stalled_cycles={"strange": 10**15, "load": 7}
    )
    report = dataclasses.replace(report, engines=(engine,))
    assert any("3,000,000,000,000,000" in line for line in printed(engine_table(report), 120))
    lines = printed(engine_table(report), 60)
    assert any("3.00 P" in line for line in lines)
    assert any("strange" in line for line in lines)


def test_totals_say_what_is_not_modelled(make_report) -> None:  # type: ignore[no-untyped-def]
    report: Report = make_report(5)
    lines = {line.split("  ")[0]: line for line in printed(totals_table(report), 120)}
    assert "not modelled  the chip states no energies" in " ".join(lines["Energy"].split("   ")).replace("   ", "  ")
    assert "not modelled" in lines["Area"] and "the chip states no areas" in lines["Area"]
    assert "Mean power" not in lines


def test_totals_show_energy_power_and_area_with_their_parts(make_report) -> None:  # type: ignore[no-untyped-def]
    report: Report = make_report(5)
    totals = dataclasses.replace(
        report.totals,
        latency_seconds=0.001,
        energy_femtojoules={"mac": 3 * 10**11, "dram": 10**11},
        area_square_micrometres={"mac": 10**6, "sram": 3 * 10**6},
    )
    lines = printed(totals_table(dataclasses.replace(report, totals=totals)), 120)
    words = [" ".join(line.split()) for line in lines]
    assert "Energy 400 µJ mac 75.0 %, dram 25.0 %" in words
    assert "Mean power 400 mW this energy over the latency" in words
    assert "Area 4.00 mm² sram 75.0 %, mac 25.0 %" in words


def test_unrollings_are_the_first_column_to_give_way(make_report) -> None:  # type: ignore[no-untyped-def]
    report: Report = make_report(2)
    name = "im2col (out_channel 32 x reduction 32)"
    layers = (dataclasses.replace(report.layers[0], unrolling=name), report.layers[1])
    report = dataclasses.replace(report, layers=layers)
    first, second = rows(printed(layer_table(report, "order"), 200))
    assert first.endswith(f" {name}") and second.endswith(" -")
    narrow = " ".join(" ".join(printed(layer_table(report), 126)).split())
    assert "Not shown for lack of width, but in layers.csv: unrolling." in narrow and name not in narrow


def test_numbers_are_whole_at_every_width(make_report) -> None:  # type: ignore[no-untyped-def]
    """What is too wide gives way as text, or as a whole column, but never as part of a number."""
    report: Report = make_report(12)
    long = dataclasses.replace(report.layers[0], name="a_rather_long_name_of_a_layer/conv", cycles=123_456_789)
    report = dataclasses.replace(report, layers=(long, *report.layers[1:]))

    def numbers(width: int) -> list[list[str]]:
        """The words of each row from the cycles on, as far as they are numbers and their units."""
        lines = printed(layer_table(report, "order"), width)
        assert max(map(cell_len, lines)) <= width
        header = next(line for line in lines if line.startswith(" #"))
        body = rows(lines)
        assert [int(line[:2]) for line in body] == list(range(12))
        end = header.find("Bound by")
        columns = slice(header.index("Cycles") - 6, end if end >= 0 else None)  # right-aligned: 11 characters wide
        return [line[columns].split() for line in body]

    whole = numbers(200)
    assert [words[0] for words in whole] == [f"{layer.cycles:,}" for layer in report.layers]
    assert {len(words) for words in whole} == {11}  # with the units of two counts and two sizes
    shown = {}
    for width in range(40, 200):
        narrow = numbers(width)
        assert narrow == [words[: len(narrow[0])] for words in whole]
        shown[width] = len(narrow[0])
    assert (shown[40], shown[80], shown[100]) == (1, 7, 11)


def test_the_tile_gives_way_before_a_number_does(make_report) -> None:  # type: ignore[no-untyped-def]
    """With one column of width missing a text shrinks; where it would be too short, the tile goes."""
    report: Report = make_report(1)
    wide = rows(printed(layer_table(report), 200))[0]
    figures = wide[wide.index(" mac ") : wide.index("oy4")].rstrip()
    seen = set()
    for width in range(80, cell_len(wide) + 2):
        (line,) = rows(printed(layer_table(report), width))
        assert figures in line or " mac " not in line
        seen.add("whole" if "oy4 ox28 oc32 ky3 kx3 ic16" in line else "shrunk" if "oy4" in line else "gone")
    assert seen == {"whole", "shrunk", "gone"}
