"""Numbers and names as shown."""

from __future__ import annotations

import pytest

from npusim.report.text import (
    CAUSES,
    cause_label,
    causes_of,
    count,
    duration,
    energy,
    frequency,
    headline,
    largest_parts,
    percent,
    power,
    printable,
    shorten,
    size,
    square,
    windows_of,
)


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (1536, "1.50 KiB"),
        (10 << 20, "10.0 MiB"),
        (700 << 30, "700 GiB"),
    ],
)
def test_size(nbytes: int, text: str) -> None:
    assert size(nbytes) == text


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (999, "999"), (1000, "1.00 k"), (16_891, "16.9 k"), (2**63 - 1, "9.22 E")]
)
def test_count(number: int, text: str) -> None:
    assert count(number) == text


@pytest.mark.parametrize(
    ("hertz", "text"),
    [(1, "1 Hz"), (999, "999 Hz"), (200_000_000, "200 MHz"), (1_050_000_000, "1.05 GHz"), (32_768, "32.768 kHz")],
)
def test_frequency_is_exact(hertz: int, text: str) -> None:
    assert frequency(hertz) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0.00 ns"), (5e-9, "5.00 ns"), (16.891e-6, "16.9 µs"), (0.25, "250 ms"), (3.0, "3.00 s")],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_percent_of_nothing_is_zero() -> None:
    assert (percent(1, 8), percent(0, 0)) == ("12.5", "0.0")


def test_shorten_keeps_both_ends() -> None:
    assert shorten("short", 5) == "short"
    assert shorten("model/block_12/conv2d", 11) == "model…onv2d"
    assert shorten("model/block_12/conv2d", 10) == "model…nv2d"
    assert shorten("anything", 1) == "…"


def test_printable_disarms_escape_sequences() -> None:
    assert printable("a\x1b[31m\nb µ") == "a�[31m�b µ"


def test_headline(make_report) -> None:  # type: ignore[no-untyped-def]
    assert headline(make_report(1)) == "synthetic on edge"


def test_causes_have_a_stable_order(make_report) -> None:  # type: ignore[no-untyped-def]
    found = causes_of(make_report(30, ("zebra", "last_results", "compute", "alpha_wait")).layers)
    assert found == ["compute", "last_results", "alpha_wait", "zebra"]
    assert [cause_label(c) for c in found] == ["compute", "last results", "alpha wait", "zebra"]
    rare = ("fill_drain", "launch", "overlapped", "reload")
    assert causes_of(make_report(100).layers) == [c for c in CAUSES if c not in rare]


def test_windows_partition_the_run(make_report) -> None:  # type: ignore[no-untyped-def]
    report = make_report(30)
    windows = windows_of(report.layers)
    ends = [start + cycles for start, cycles in windows]
    assert [start for start, _ in windows] == [0, *ends[:-1]]
    assert ends[-1] == report.totals.cycles


@pytest.mark.parametrize(
    ("femtojoules", "text"),
    [(0, "0 fJ"), (999, "999 fJ"), (1000, "1.00 pJ"), (9_240_000_000_000, "9.24 mJ"), (2 * 10**21, "2000 kJ")],
)
def test_energy(femtojoules: int, text: str) -> None:
    assert energy(femtojoules) == text


@pytest.mark.parametrize(
    ("femtojoules", "seconds", "text"),
    [(10**15, 1.0, "1.00 W"), (10**12, 2.0, "500 µW"), (5, 0.0, "0 nW"), (10**9, 1e-3, "1.00 mW")],
)
def test_power_is_energy_over_time(femtojoules: int, seconds: float, text: str) -> None:
    assert power(femtojoules, seconds) == text


@pytest.mark.parametrize(
    ("square_micrometres", "text"), [(0, "0 µm²"), (9999, "9999 µm²"), (10000, "0.01 mm²"), (170_304_256, "170 mm²")]
)
def test_square(square_micrometres: int, text: str) -> None:
    assert square(square_micrometres) == text


def test_largest_parts_are_percent_of_the_sum() -> None:
    amounts = {"a": 10, "sram": 50, "output_pipeline": 30, "b": 6, "c": 4, "d": 0}
    assert largest_parts(amounts, 2) == "sram 50.0 %, output pipeline 30.0 %, other 20.0 %"
    assert largest_parts(amounts, 5).endswith("b 6.0 %, c 4.0 %")
    assert largest_parts({"a": 0}) == ""
