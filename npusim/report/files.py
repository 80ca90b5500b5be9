"""The files of a report: layers as CSV, tensors as npy, and a writer that leaves all of them or none."""

from __future__ import annotations

import csv
import errno
import hashlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from npusim.errors import InputError, InternalError
from npusim.report.result import LayerFigures, Report
from npusim.report.text import NOT_MODELLED, causes_of

REPORT_FILE = "report.json"
PICTURES = ("latency.png", "utilization.png", "timeline.png", "roofline.png", "sram.png")
"""The pictures of a run."""
_LONGEST_NAME = 128


def output_file(value: str) -> str:
    """The file of the output tensor ``value``: ``outputs/<value>.npy``, a different one for every value.

    Whatever a file name may not hold is percent-encoded; what makes it too long is replaced by a hash.
    """
    name = quote(value, safe="", errors="surrogatepass")
    if len(name) > _LONGEST_NAME:
        digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        name = f"{name[: _LONGEST_NAME - 17]}-{digest}"
    return f"outputs/{name}.npy"


def npy_bytes(array: NDArray[Any]) -> bytes:
    """``array`` as a file in npy format 1.0: C order, little-endian, equal for equal arrays of equal type."""
    buffer = io.BytesIO()
    plain = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
    np.lib.format.write_array(buffer, plain, version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def csv_text(report: Report) -> str:
    """``layers.csv`` (RFC 4180): a header that names units, then one row per layer, in the order of execution.

    The ``cause_..._cycles`` of a row sum to its ``cycles``; the ``cycles`` of all rows sum to the run's. The
    ``energy_..._femtojoules`` of a row sum to its ``energy_femtojoules``.
    """
    causes, components = causes_of(report.layers), list(report.totals.energy_femtojoules or ())
    rows = [_row(i, layer, report.totals.cycles, causes, components) for i, layer in enumerate(report.layers)]
    header = list(rows[0]) if rows else ["order", "layer", "cycles"]
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, header, lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def _row(
    order: int, layer: LayerFigures, total_cycles: int, causes: list[str], components: list[str]
) -> dict[str, object]:
    return {
        "order": order,
        "layer": layer.name,
        "operators": "+".join(layer.operators),
        "engine": layer.engine,
        "output": layer.output,
        "start_cycle": layer.start_cycle,
        "cycles": layer.cycles,
        "share_of_run_fraction": layer.cycles / total_cycles if total_cycles else 0.0,
        "span_cycles": layer.span_cycles,
        "active_cycles": layer.active_cycles,
        "compute_cycles": layer.compute_cycles,
        "bank_conflict_cycles": layer.bank_conflict_cycles,
        "bound_cycles": layer.bound_cycles,
        "estimate_cycles": layer.estimate_cycles,
        "macs": layer.macs,
        "useful_macs": layer.useful_macs,
        "utilization_fraction": layer.utilization,
        "dram_read_bytes": layer.dram_read_bytes,
        "dram_write_bytes": layer.dram_write_bytes,
        "sram_bytes": layer.sram_bytes,
        "output_in_sram": str(layer.output_in_sram).lower(),
        "bound_by": layer.bound_by,
        **{f"cause_{c}_cycles": layer.cycles_by_cause.get(c, 0) for c in causes},
        "tiles": layer.tiles,
        "tile": " ".join(f"{d}={n}" for d, n in layer.tile.items()),
        "loop_order": " ".join(layer.loop_order),
        "unrolling": layer.unrolling or "",
        "buffers": layer.buffers,
        "overflow_events": layer.overflow_events,
        **_energy(layer, components),
    }


def _energy(layer: LayerFigures, components: list[str]) -> dict[str, object]:
    """Its total, and that of each component; the total alone says so where energy is not modelled."""
    spent = layer.energy_femtojoules
    if spent is None:
        return {"energy_femtojoules": NOT_MODELLED}
    parts = {f"energy_{c}_femtojoules": spent.get(c, 0) for c in components}
    return {"energy_femtojoules": sum(spent.values()), **parts}


def write_files(directory: Path, files: Mapping[str, bytes]) -> None:
    """Put ``files`` (relative path with ``/`` -> content) into ``directory``, made if absent: all of them or none.

    Everything is first written to a temporary folder inside ``directory``, then moved into place; a failure on the way
    moves everything back. Files of the same names are replaced; output tensors that the ``report.json`` found there
    lists, and pictures beside it, are removed where ``files`` does not bring them again; no other file is touched.

    Raises InputError where ``directory`` is a file or cannot be written.
    """
    for name in files:
        parts = PurePosixPath(name).parts
        if not parts or ".." in parts or PurePosixPath(name).is_absolute() or "\\" in name:
            raise InternalError(f"report file {name!r} lies outside the report's directory")
    made: list[Path] = []
    try:
        _make_directory(directory, made)
        stale = _earlier_outputs(directory) - files.keys()
        staging = Path(tempfile.mkdtemp(prefix=".npusim-", dir=directory))
        try:
            _exchange(directory, staging, files, stale, made)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    except BaseException as error:
        with suppress(OSError):
            for folder in reversed(made):
                folder.rmdir()
        if not isinstance(error, OSError):
            raise
        raise InputError(
            f"{directory}: cannot write the report there: {error.filename or directory}: {error.strerror or error}; "
            "name another directory with --out"
        ) from error


def _exchange(directory: Path, staging: Path, files: Mapping[str, bytes], stale: set[str], made: list[Path]) -> None:
    """Write ``files`` to ``staging``, then change places; undo all moves, latest first, if one fails."""
    names = sorted(files)
    for i, name in enumerate(names):
        (staging / f"new{i}").write_bytes(files[name])
    undo: list[tuple[Path, Path]] = []

    def move(source: Path, target: Path) -> None:
        os.replace(source, target)
        undo.append((target, source))

    try:
        for i, name in enumerate([*names, *sorted(stale)]):
            target = directory / name
            _make_directory(target.parent, made)
            if target.is_dir() and not target.is_symlink():
                raise IsADirectoryError(errno.EISDIR, "a directory stands where a file must go", str(target))
            if target.exists() or target.is_symlink():
                move(target, staging / f"old{i}")
            if i < len(names):
                move(staging / f"new{i}", target)
    except BaseException:
        for target, source in reversed(undo):
            os.replace(target, source)
        raise


def _make_directory(directory: Path, made: list[Path]) -> None:
    """Make ``directory`` with its parents, and note in ``made`` which ones were not there, outermost first."""
    if directory.is_dir():
        return
    if directory.exists():
        raise NotADirectoryError(errno.ENOTDIR, "it is a file, not a directory", str(directory))
    _make_directory(directory.parent, made)
    directory.mkdir()
    made.append(directory)


def _earlier_outputs(directory: Path) -> set[str]:
    """Names of the output files and pictures that an earlier run left in ``directory``, by its own report."""
    try:
        report = json.loads((directory / REPORT_FILE).read_text(encoding="utf-8"))
        listed = {output_file(str(tensor["name"])) for tensor in report["outputs"]} | set(PICTURES)
    except (OSError, ValueError, LookupError, TypeError):
        return set()  # no report, or none of npusim's: nothing here is ours to remove
    return {name for name in listed if (directory / name).is_file()}
