"""Check the fuzzer: its graphs are legal and varied, a planted fault is found, made small, written and run again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from npusim.errors import FileFormatError, InvalidGraphError, UnpredictableError
from npusim.frontends.tosa import read_tosa, to_graph, write_tosa
from npusim.functional import evaluate_graph
from npusim.numerics.types import Array
from scripts import fuzz
from scripts.tosa_fuzz import compare
from scripts.tosa_fuzz.choices import Choices, shrink
from scripts.tosa_fuzz.compare import Outcome, judge
from scripts.tosa_fuzz.corrupt import corrupt
from scripts.tosa_fuzz.graphs import OPERATORS, random_graph
from scripts.tosa_fuzz.minimise import Sample, kind_of_fault, load, minimise, run, sample, save
from scripts.tosa_oracle.environment import DEFAULT_FOLDER
from scripts.tosa_oracle.model import Answer, Status

needs_tools = pytest.mark.skipif(
    not (DEFAULT_FOLDER / "bin").is_dir(), reason="TOSA's tools are absent: `make fuzz` installs them"
)


class Model:
    """A reference model that is npusim itself, but for what ``tamper`` makes of its answer."""

    def __init__(self, wrong_operator: str = "") -> None:
        self.wrong_operator = wrong_operator

    def run(self, file: bytes, inputs: Sequence[Array], level: str = "EIGHTK") -> Answer:
        try:
            graph = to_graph(read_tosa(file, "graph"), "graph")
        except (InvalidGraphError, FileFormatError):
            return Answer(Status.ERROR, ())
        arrays = zip(graph.data_inputs, inputs, strict=True)
        try:
            found = evaluate_graph(graph, {v: a.view(graph.types[v].dtype.storage) for v, a in arrays})
        except UnpredictableError:
            return Answer(Status.UNPREDICTABLE, ())
        off = any(n.op.name == self.wrong_operator for n in graph.nodes)
        return Answer(Status.VALID, tuple(x ^ np.ones_like(x) if off else x for x in found.values()))


# -- choices -------------------------------------------------------------------------------------------------------


def test_choices_come_again() -> None:
    first = Choices("seed")
    drawn = [first.integer(-3, 9), first.sample("abc"), first.chance(1, 2)]
    again = Choices(replay=first.made)
    assert [again.integer(-3, 9), again.sample("abc"), again.chance(1, 2)] == drawn
    assert Choices("seed").integer(-3, 9) == drawn[0]


def test_choices_that_are_missing_or_too_large() -> None:
    choices = Choices(replay=[100])
    assert (choices.integer(2, 5), choices.integer(7, 9), choices.chance(1, 2)) == (5, 7, False)
    assert choices.made == [3, 0, 0]


def test_shrink() -> None:
    made = list(range(50))
    assert shrink(made, lambda c: sum(c) >= 40, 10_000) == [40]
    assert shrink(made, lambda c: 17 in c and 23 in c, 10_000) == [17, 23]
    tried: list[object] = []
    shrink(made, lambda c: bool(tried.append(c)), 7)
    assert len(tried) == 7


# -- graphs --------------------------------------------------------------------------------------------------------


def test_graphs_are_legal_and_of_all_operators() -> None:
    counts: Counter[str] = Counter()
    defined = 0
    for k in range(300):
        graph = random_graph(Choices(f"legal {k}"))
        loaded = to_graph(read_tosa(write_tosa(graph.file), "graph"), "graph")
        counts.update(graph.operators)
        assert loaded.data_outputs == tuple(graph.tolerances)
        assert {loaded.types[v].dtype.name for v in loaded.data_outputs} <= {"bool", "i8", "i16", "i32"}
        arrays = zip(loaded.data_inputs, graph.inputs, strict=True)
        try:
            evaluate_graph(loaded, {v: a.view(loaded.types[v].dtype.storage) for v, a in arrays})
            defined += 1
        except UnpredictableError:
            pass
    assert set(counts) == set(OPERATORS)
    assert 200 < defined < 300


def test_a_graph_depends_on_its_seed_alone() -> None:
    one, same, other = (random_graph(Choices(seed)) for seed in ("1:5", "1:5", "1:6"))
    assert write_tosa(one.file) == write_tosa(same.file) != write_tosa(other.file)
    assert all(np.array_equal(a, b) for a, b in zip(one.inputs, same.inputs, strict=True))


def test_the_simplest_graph_is_simple() -> None:
    graph = random_graph(Choices(replay=[]))
    assert graph.operators == ("ADD",)
    assert [a.size for a in graph.inputs] == [1, 1] and not any(a.any() for a in graph.inputs)


def test_corrupted_graphs_are_mostly_refused() -> None:
    refused = 0
    for k in range(100):
        choices = Choices(f"corrupt {k}")
        graph = corrupt(choices, random_graph(choices))
        assert graph.broken
        outcome = judge(graph, sample(Choices(replay=[]), ["ADD"])[0], Model())  # type: ignore[arg-type]
        assert outcome.kind != "finding", outcome.fault
        refused += outcome.kind == "invalid"
    assert refused > 70


# -- judging -------------------------------------------------------------------------------------------------------


def judged(operator: str, seed: str, model: Model) -> Outcome:
    return run(sample(Choices(seed), [operator]), model)  # type: ignore[arg-type]


def test_whole_and_tiles_agree_on_random_graphs() -> None:
    """The model here is npusim as a whole, so what differs would be the tiles."""
    kinds: Counter[str] = Counter()
    tiled = 0
    for k in range(80):
        outcome = run(sample(Choices(f"tiles {k}"), tuple(OPERATORS)), Model())  # type: ignore[arg-type]
        assert outcome.kind != "finding", outcome.fault
        kinds[outcome.kind] += 1
        tiled += outcome.tiled
    assert kinds["equal"] > 40 and kinds["unpredictable"] > 5 and tiled > 40


def test_differences_are_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    simple = sample(Choices(replay=[]), ["ABS"])
    assert run(simple, Model()).kind == "equal"  # type: ignore[arg-type]
    outcome = run(simple, Model("abs"))  # type: ignore[arg-type]
    assert outcome.kind == "finding" and "evaluated: output 'abs_1': 1 of 1 elements" in outcome.fault
    monkeypatch.setattr(compare, "_run_tiles", lambda *_: {"abs_1": np.int32(7)[None][0:0]})
    assert "through tiles: output 'abs_1': int32[0] for int32[" in run(simple, Model()).fault  # type: ignore[arg-type]

    def broken(*_: object) -> None:
        raise KeyError("lost")

    monkeypatch.setattr(compare, "_run_tiles", broken)
    assert run(simple, Model()).fault == "through tiles: KeyError: 'lost'"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "fault"),
    [
        (Status.UNPREDICTABLE, "the model says UNPREDICTABLE, npusim has a result"),
        (Status.DIED, "the model says DIED, npusim has a result"),
        (Status.ERROR, "the model refuses the graph, npusim does not"),
    ],
)
def test_another_status_is_a_finding(status: Status, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Model, "run", lambda *_: Answer(status, ()))
    assert judged("ABS", "x", Model()).fault == fault


def unpredictable_sample(operator: str) -> Sample:
    for k in range(1000):
        found = sample(Choices(f"unpredictable {k}"), [operator])
        if run(found, Model()).kind == "unpredictable":  # type: ignore[arg-type]
            return found
    raise AssertionError("no unpredictable graph")


def test_a_result_of_the_model_for_an_unpredictable_graph_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    found = unpredictable_sample("ADD")
    monkeypatch.setattr(Model, "run", lambda *_: Answer(Status.VALID, ()))
    outcome = run(found, Model())  # type: ignore[arg-type]
    assert outcome.fault.startswith("the model has a result, npusim says: layer 'add_")


def test_tiles_must_be_unpredictable_too(monkeypatch: pytest.MonkeyPatch) -> None:
    found = unpredictable_sample("ADD")
    monkeypatch.setattr(compare, "_run_tiles", lambda *_: {})
    outcome = run(found, Model())  # type: ignore[arg-type]
    assert outcome.fault.startswith("tiles have a result, evaluation says: layer 'add_")


# -- making small --------------------------------------------------------------------------------------------------


def test_a_planted_fault_is_made_small_and_comes_again(tmp_path: Path) -> None:
    model = Model("max_pool2d")

    def judge_it(candidate: Sample) -> Outcome:
        return run(candidate, model)  # type: ignore[arg-type]

    for k in range(1000):
        choices = Choices(f"planted {k}")
        large = sample(choices, tuple(OPERATORS))
        if len(large[1].operators) > 3 and judge_it(large).fault.startswith("evaluated: "):
            break
    small = minimise(choices.made, tuple(OPERATORS), judge_it, 300)
    assert small[1].operators == ("MAX_POOL2D",)
    assert sum(a.size for a in small[1].inputs) <= 4 and not any(a.any() for a in small[1].inputs)
    outcome = judge_it(small)
    assert outcome.kind == "finding"
    save(tmp_path / "it", small, outcome.fault, model)  # type: ignore[arg-type]
    assert sorted(p.name for p in (tmp_path / "it").iterdir())[:2] == ["about.json", "graph.tosa"]
    again = load(tmp_path / "it")
    assert judge_it(again) == outcome
    assert again[0] == small[0] and write_tosa(again[1].file) == write_tosa(small[1].file)


def test_the_kind_of_a_fault_has_no_names_and_numbers() -> None:
    first = Outcome("finding", "evaluated: output 'abs_1': 3 of 4 elements")
    second = Outcome("finding", "evaluated: output 'abs_7': 1 of 1 elements")
    assert kind_of_fault(first) == kind_of_fault(second) == "evaluated: output "
    assert kind_of_fault(Outcome("finding", "through tiles: KeyError: 7")) == "through tiles: KeyError: "


# -- the command ---------------------------------------------------------------------------------------------------


def test_the_report() -> None:
    outcomes = [Outcome("equal", tiled=True), Outcome("finding", "evaluated: wrong")]
    judged = [fuzz.Judged(k, o, ("ABS", "ADD")[: k + 1]) for k, o in enumerate(outcomes)]
    assert list(fuzz.summary(judged)) == [
        "FINDING graph 1 (ABS, ADD): evaluated: wrong",
        "operators: ABS 2, ADD 1",
        "2 graphs, 3 operators, 1 graphs also through tiles: 1 equal, 1 finding",
    ]


@needs_tools
def test_the_command_agrees_with_the_reference_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz.main(["--count", "40", "--workers", "1", "--seed", "9", "--out", str(tmp_path)]) == 0
    assert "40 graphs, " in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


@needs_tools
def test_the_command_writes_what_it_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = [fuzz.Judged(4, Outcome("finding", "evaluated: output 'x'"), ("ABS",))]
    monkeypatch.setattr(fuzz, "_judge_all", lambda *_: wrong)
    assert fuzz.main(["--operator", "ABS", "--out", str(tmp_path)]) == 1
    folder = tmp_path / "1-4"
    assert f"python -m scripts.fuzz --repro {folder}\n" in capsys.readouterr().out
    assert fuzz.main(["--repro", str(folder)]) == 0  # nothing is wrong with it
    assert capsys.readouterr().out == "equal \n"
