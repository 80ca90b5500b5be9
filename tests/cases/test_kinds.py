"""Case files about timing, tiling and accounting: B29, B30, B31, B33, B34 and B36.

One thing of them cannot be said in npusim's format: mappings by the factors of every memory level, which may contradict
the layer (B33, "loops that are missing"). A mapping states tile sizes instead, and however small they are, the loops
around them cover the layer; what can be wrong is a dimension that does not exist, and that is refused by name.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from npusim.errors import ConfigError, DoesNotFitError, InputError, InvalidGraphError
from npusim.frontends.chip import load_chip
from npusim.frontends.workload import load_workload
from npusim.graph import Graph, GraphBuilder
from npusim.hardware import Chip
from npusim.ir.mapping_options import LayerOptions, MappingOptions
from npusim.ir.tensor import TensorType
from npusim.mapping.mapper import map_graph
from npusim.numerics.types import DTYPES, I8, I32
from npusim.ops import op_class
from npusim.program import Compute
from npusim.report.result import LayerFigures, Report
from npusim.session import Job, map_and_time, run
from npusim.timing import simulate
from npusim.timing.costs import ComputeCost
from npusim.timing.simulator import simulate_costed
from tests.plain import compute, matmul, plain_chip, program, sram_rate

Case = dict[str, Any]
IDEAL = ("dram.bytes_per_cycle=1000000", "dma.bytes_per_cycle=1000000", *sram_rate(1000000))


@pytest.fixture
def case(request: pytest.FixtureRequest) -> Case:
    """The case file that a test's name begins with."""
    number = request.function.__name__.split("_")[1].upper()
    folder: Path = request.config.getoption("cases")
    found = sorted(folder.glob(f"{number}-*.yaml"))
    if not found:
        pytest.skip(f"no case {number} in {folder}")
    loaded: Case = yaml.safe_load(found[0].read_text(encoding="utf-8"))
    assert loaded["id"] == number
    return loaded


def convolution(layer: Case, name: str = "layer") -> Graph:
    """A ``conv2d`` or ``depthwise_conv2d`` of int8 with zero weights."""
    b = GraphBuilder(name)
    weight = tuple(layer["weight"])
    depthwise = layer["op"] == "depthwise_conv2d"
    channels = weight[2] * weight[3] if depthwise else weight[0]
    b.input("x", TensorType(tuple(layer["input"]), I8))
    b.constant("w", TensorType(weight, I8), np.zeros(weight, np.int8))
    b.constant("bias", TensorType((channels,), I32), np.zeros((channels,), np.int32))
    op = op_class(layer["op"])(
        pad=tuple(layer["pad"]), stride=tuple(layer["stride"]), dilation=tuple(layer["dilation"])
    )
    b.node(name, op, ("x", "w", "bias"), "y")
    return b.finish(("y",))


def timed(graph: Graph, chip: Chip, **layers: LayerOptions) -> Report:
    zeros = {v: np.zeros(graph.types[v].shape, graph.types[v].dtype.storage) for v in graph.data_inputs}
    return run(Job(graph=graph, chip=chip, inputs=zeros, mapping=MappingOptions(layers=layers), bits="off")).report


def only_layer(report: Report) -> LayerFigures:
    (layer,) = report.layers
    return layer


def check_utilisations(report: Report) -> None:
    """Every utilisation is in 0..1 and no unit is busy for longer than the run."""
    assert all(0 <= u <= 1 for u in report.totals.utilization.values())
    assert all(0 <= x.utilization <= 1 for x in report.layers)
    assert all(e.busy_cycles <= report.totals.cycles for e in report.engines)


# -- B29: a kernel larger than the input -----------------------------------------------------------------------------


def test_b29_taps_on_padding_are_counted_apart(case: Case) -> None:
    run_ = next(r for r in case["runs"] if r["name"] == case["input"]["run"])
    operands = run_["operands"]
    layer = {
        "op": run_["op"],
        "input": operands["input"]["shape"],
        "weight": operands["weight"]["shape"],
        **run_["attributes"],
    }
    found = only_layer(timed(convolution(layer), load_chip("edge")))
    assert found.macs == case["expected"]["dense_macs"]
    assert found.useful_macs == case["expected"]["useful_macs"]


def test_b29_without_padding_it_is_refused(case: Case) -> None:
    run_ = next(r for r in case["runs"] if "error" in r["expect"])
    operands = run_["operands"]
    layer = {
        "op": run_["op"],
        "input": operands["input"]["shape"],
        "weight": operands["weight"]["shape"],
        **run_["attributes"],
    }
    with pytest.raises(InvalidGraphError, match="the dilated kernel must fit into the padded input"):
        convolution(layer)


def test_b29_keys_of_another_operator_are_named_and_sizes_are_not(case: Case, tmp_path: Path) -> None:
    for k, (given, expected) in enumerate(
        zip(case["input"]["workloads_with_foreign_keys"], case["expected"]["foreign_keys"], strict=True)
    ):
        tensors = {key: given[key] for key in ("a", "b", "input", "weight") if key in given}
        attributes = {key: v for key, v in given.items() if key not in ("op", *tensors)}
        inputs = {key: "x".join(["1"] * (3 - len(s)) + [str(n) for n in s]) + "xi8" for key, s in tensors.items()}
        if given["op"] == "conv2d":
            inputs["bias"] = f"{given['weight'][0]}xi32"
            attributes |= {"pad": [1, 1, 1, 1], "stride": [1, 1], "dilation": [1, 1]}
        operator = {"name": "op", "op": given["op"], "inputs": list(inputs), "attributes": attributes}
        path = tmp_path / f"{k}.yaml"
        path.write_text(yaml.safe_dump({"name": "w", "graph": {
            "inputs": inputs, "operators": [operator], "outputs": ["op"]}}))  # fmt: skip
        with pytest.raises(ConfigError) as caught:
            load_workload(path, [])
        problems = [p.removeprefix(str(path)) for p in caught.value.problems]
        assert len(problems) == len(expected["names"])
        for name in expected["names"]:
            assert sum(f"attribute {name!r} is not known" in p for p in problems) == 1
        assert not any(word in p for p in problems for word in ("fit", "shape", "size"))


# -- B30: depthwise layers and batches -------------------------------------------------------------------------------


def test_b30_depthwise_layers_and_batches_count_as_what_they_are(case: Case) -> None:
    for layer, expected in zip(case["input"]["layers"], case["expected"], strict=True):
        graph = convolution(layer)
        report = timed(graph, load_chip("edge"))
        found = only_layer(report)
        dims = [*map(str, expected["output"]), case["input"]["types"]["output"]]
        assert found.output == "x".join(dims), layer["name"]
        assert found.macs == report.totals.macs == expected["macs"]
        assert graph.types["y"].size == expected["output_elements"]
        assert graph.types["w"].packed_bytes == expected["weight_bytes"]
        assert found.dram_write_bytes >= 4 * expected["output_elements"]
        check_utilisations(report)


# -- B31: a full-HD layer --------------------------------------------------------------------------------------------

FULL_HD = """
import json, resource, sys
import numpy as np
from npusim.frontends.chip import load_chip
from npusim.graph import GraphBuilder
from npusim.ir.tensor import TensorType
from npusim.numerics.types import I8, I32
from npusim.ops import op_class
from npusim.session import Job, run

given = json.loads(sys.argv[1])
layer, chip = given["layer"], given["chip"]
b = GraphBuilder("full_hd")
weight = tuple(layer["weight"])
b.input("x", TensorType(tuple(layer["input"]), I8))
b.constant("w", TensorType(weight, I8), np.zeros(weight, np.int8))
b.constant("bias", TensorType((1,), I32), np.zeros(1, np.int32))
attributes = {k: tuple(layer[k]) for k in ("pad", "stride", "dilation")}
b.node("conv", op_class("conv2d")(**attributes), ("x", "w", "bias"), "sums")
b.constant("multiplier", TensorType((1,), I32), np.full(1, 1 << 30, np.int32))
b.constant("shift", TensorType((1,), I8), np.full(1, 38, np.int8))
rescale = op_class("rescale")(scale32=True, rounding="double", per_channel=False, input_unsigned=False,
                              output_unsigned=False, out_type="i8")
b.node("rescale", rescale, ("sums", "multiplier", "shift"), "y")
overrides = [f"units.0.array.rows={chip['array_rows']}", f"units.0.array.columns={chip['array_cols']}",
             f"sram.size_bytes={3 * chip['sram_kib_each'] * 1024}"]
inputs = {"x": np.zeros(layer["input"], np.int8)}
result = run(Job(graph=b.finish(("y",)), chip=load_chip("server", overrides), inputs=inputs, bits="off"))
(found,) = result.report.layers
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"macs": found.macs, "output": found.output, "read": found.dram_read_bytes,
                  "written": found.dram_write_bytes, "utilization": found.utilization,
                  "peak_bytes": peak * (1 if sys.platform == "darwin" else 1024)}))
"""


def test_b31_a_full_hd_layer_is_timed_in_little_memory(case: Case) -> None:
    expected = case["expected"]
    root = Path(__file__).resolve().parents[2]
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", FULL_HD, json.dumps(case["input"])],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - begin
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["output"] == "x".join(map(str, expected["output"])) + "xi8"
    assert found["macs"] == expected["macs"]
    assert expected["ifm_bytes"] + expected["weight_bytes"] <= found["read"]
    assert expected["ofm_bytes"] <= found["written"] < 2 * expected["ofm_bytes"]
    assert 0 < found["utilization"] <= 1
    assert found["peak_bytes"] < expected["peak_memory_mib_below"] << 20
    assert seconds < expected["seconds_below"]


# -- B33: a mapping covers the work ----------------------------------------------------------------------------------


def array_of(vector: Case, kind: str) -> Chip:
    rows, columns = vector["chip"]["array_rows"], vector["chip"]["array_cols"]
    array = f"{{kind: unrolled, unrollings: [{{out_channel: {columns}, in_channel: {rows}}}], stationary: weights}}"
    if kind == "systolic":
        array = (
            f"{{kind: systolic, rows: {rows}, columns: {columns}, stationary: weights, overlapped_folds: true, "
            "reload_cycles: 0}"
        )
    return plain_chip(*IDEAL, f"units.0.array={array}")


@pytest.mark.parametrize("kind", ["unrolled", "systolic"])
def test_b33_seven_on_eight_leaves_multipliers_idle(case: Case, kind: str) -> None:
    vector, expected = case["input"]["vectors"][0], case["expected"]["vectors"][0]
    layer = vector["layer"]
    report = timed(matmul(layer["M"], layer["K"], layer["N"]), array_of(vector, kind))
    found = only_layer(report)
    assert found.macs == expected["macs"]
    busy = next(e for e in report.engines if e.engine == "mac0").busy_cycles
    spatial = found.macs / (busy * vector["chip"]["array_rows"] * vector["chip"]["array_cols"])
    assert found.utilization <= spatial <= expected["spatial_utilisation_max"]
    assert kind == "systolic" or spatial == expected["spatial_utilisation_max"]
    check_utilisations(report)


def test_b33_small_factors_make_more_tiles_and_drop_no_loop(case: Case) -> None:
    """The factors of one level, taken as a tile: the loops that the case is missing appear around it."""
    vector, missing = case["input"]["vectors"][1], case["expected"]["vectors"][1]
    names = {"OC": "oc", "OH": "oy", "OW": "ox", "KH": "ky", "KW": "kx", "IC": "ic"}
    tile = {names[k]: n for k, n in vector["factors"]["array"].items()}
    assert all(tile[names[k]] == n for k, n in missing["given"].items())
    graph = convolution(vector["layer"])
    report = timed(graph, array_of(vector, "unrolled"), layer=LayerOptions(tile=tile))
    found = only_layer(report)
    kernel = prod(missing["wanted"].values())
    assert found.tile["ky"] == found.tile["kx"] == 1
    assert found.tiles == 6 * 6 * kernel
    assert found.macs == 6 * 6 * kernel * 4 * 4
    check_utilisations(report)


def test_b33_loops_that_do_not_exist_are_refused_by_name(case: Case) -> None:
    vector, names = case["input"]["vectors"][1], case["expected"]["vectors"][1]["names"]
    tile = {k: n for k, n in vector["factors"]["sram"].items() if k in names}
    with pytest.raises(InputError) as caught:
        timed(convolution(vector["layer"]), array_of(vector, "unrolled"), layer=LayerOptions(tile=tile))
    for name, problem in zip(names, caught.value.problems, strict=True):
        assert f"unknown dimension {name!r}; it has n, oy, ox, oc, ky, kx, ic" in problem


def test_b33_ragged_tiles_add_up(case: Case) -> None:
    vector, expected = case["input"]["vectors"][2], case["expected"]["vectors"][2]
    layer, tile = vector["layer"], vector["tile"]
    options = LayerOptions(tile={"h": tile["M"], "w": tile["N"], "c": tile["K"]})
    graph, chip = matmul(layer["M"], layer["K"], layer["N"]), array_of(vector, "unrolled")
    report = timed(graph, chip, mm=options)
    found = only_layer(report)
    assert found.macs == expected["macs"]
    assert found.tiles == expected["tiles"]
    p = map_graph(graph, chip, MappingOptions(layers={"mm": options})).program
    macs = [prod(c.box.shape) for c in p if isinstance(c, Compute)]
    assert sum(macs) == expected["macs"]
    assert max(macs) == expected["macs_of_largest_tile"]
    assert min(macs) == expected["macs_of_smallest_tile"]
    check_utilisations(report)


# -- B34: more cores than tiles --------------------------------------------------------------------------------------


def test_b34_sixteen_instances_with_four_tiles(case: Case) -> None:
    given, expected = case["input"]["vectors"][0], case["expected"][0]
    cores, tiles, cycles = given["cores"], given["independent_tiles"], given["cycles_per_tile"]
    chip = plain_chip(f"units.0.instances={cores}")
    work = [compute(i, "mac", i % cores) for i in range(tiles)]
    timeline = simulate_costed(program(*work), chip, [ComputeCost(cycles, 0, 0)] * tiles)
    busy = {q: sum(s.busy for s in spans) for q, spans in timeline.by_queue().items()}
    assert timeline.cycles == expected["makespan"]
    assert sum(busy.values()) == expected["busy_cycles_sum"]
    assert len(busy) == expected["cores_used"]
    assert sum(busy.values()) / (cores * timeline.cycles) == expected["average_core_utilisation"]


def test_b34_a_mapped_layer_counts_its_idle_instances(case: Case) -> None:
    given, expected = case["input"]["vectors"][0], case["expected"][0]
    cores, tiles, cycles = given["cores"], given["independent_tiles"], given["cycles_per_tile"]
    chip = plain_chip(*IDEAL, f"units.0.instances={cores}")
    report = timed(matmul(tiles, 10, cycles // 10), chip, mm=LayerOptions(tile={"h": 1, "w": cycles // 10, "c": 10}))
    found = only_layer(report)
    working = [e for e in report.engines if e.engine.startswith("mac") and e.busy_cycles]
    assert [e.busy_cycles for e in working] == [cycles] * expected["cores_used"]
    assert found.compute_cycles == expected["busy_cycles_sum"]
    assert found.utilization == round(tiles * cycles / (cores * report.totals.cycles), 6)
    assert found.utilization <= expected["average_core_utilisation"]


def test_b34_a_layer_without_work_is_refused_by_name(case: Case) -> None:
    assert case["input"]["vectors"][1]["independent_tiles"] == 0
    with pytest.raises(
        InvalidGraphError, match=r"input 'a' has shape \[1, 0, 10\]; every dimension must be at least 1"
    ):
        matmul(0, 10, 10)
    b = GraphBuilder("empty")
    b.input("x", TensorType((4, 4), I8))
    b.node("cut", op_class("slice")(start=(0, 0), size=(0, 4)), ("x",), "y")
    with pytest.raises(InvalidGraphError, match=r"node 'cut' \(slice\)"):
        b.finish(("y",))


# -- B36: granules, capacity, larger memories ------------------------------------------------------------------------


def test_b36_a_channel_granule_doubles_seventeen_channels(case: Case) -> None:
    for given, expected in zip(case["input"]["allocations"], case["expected"]["allocations"], strict=True):
        tensor = TensorType(tuple(given["tensor"]), DTYPES[given["type"]])
        sram = plain_chip(f"sram.channel_granule={given['channel_granule']}").sram
        assert tensor.packed_bytes == expected["logical_bytes"]
        assert sram.allocated_bytes(tensor) == expected["allocated_bytes"]
        assert tensor.packed_bytes / sram.allocated_bytes(tensor) == expected["fill"]


def test_b36_what_is_required_and_what_is_there(case: Case) -> None:
    given, expected = case["input"]["too_large"], case["expected"]["too_large"]
    graph = matmul(given["M"], given["K"], given["N"])
    with pytest.raises(DoesNotFitError) as caught:
        timed(graph, plain_chip(f"sram.size_bytes={given['sram_bytes']}"), mm=LayerOptions(tile={"c": given["K"]}))
    message = str(caught.value)
    required = int(message.split(" needs ")[1].split()[0])
    available = int(message.split(" there are ")[1].split(";")[0])
    assert required >= expected["required_min"]
    assert available == expected["available"] < required
    assert f"a {given['K']}, b {given['K']}, y 4" in message


def swept(case: Case, preset: str) -> list[tuple[int, int]]:
    """(estimated, simulated) cycles for each size of SRAM."""
    sweep = case["input"]["sweep"]
    found = []
    for kib in sweep["sram_kib"]:
        chip = load_chip(preset, [f"sram.size_bytes={kib} KiB"])
        mapped = map_graph(convolution(sweep["layer"]), chip, MappingOptions())
        found.append((mapped.plan.layers[0].mapping.estimate_cycles, simulate(mapped.program, chip).cycles))
    return found


@pytest.mark.parametrize("preset", ["micro", "edge", "server"])
def test_b36_a_larger_memory_never_makes_a_layer_slower(case: Case, preset: str) -> None:
    sweep = case["input"]["sweep"]
    cycles = []
    for kib in sweep["sram_kib"]:
        chip = load_chip(preset, [f"sram.size_bytes={kib} KiB"])
        cycles.append(map_and_time(convolution(sweep["layer"]), chip, MappingOptions())[2].cycles)
    assert cycles == sorted(cycles, reverse=True)


@pytest.mark.parametrize("preset", ["micro", "edge", "server"])
def test_b36_one_plan_for_a_larger_memory_is_never_much_slower(case: Case, preset: str) -> None:
    """Without trying plans for smaller memories, but for 1/64: less than the search may give away on purpose."""
    cycles = [simulated for _, simulated in swept(case, preset)]
    best = cycles[0]
    for now in cycles:
        assert 64 * now <= 65 * best
        best = min(best, now)
    if preset != "micro":  # whose multipliers are all at work with the smallest memory
        assert cycles[-1] < cycles[0] * 3 // 4


@pytest.mark.parametrize("preset", ["micro", "edge", "server"])
def test_b36_a_program_for_a_smaller_memory_runs_as_fast_in_a_larger(case: Case, preset: str) -> None:
    sweep = case["input"]["sweep"]
    small, *larger = (load_chip(preset, [f"sram.size_bytes={kib} KiB"]) for kib in sweep["sram_kib"])
    p = map_graph(convolution(sweep["layer"]), small, MappingOptions()).program
    assert {simulate(p, chip).cycles for chip in larger} == {simulate(p, small).cycles}
