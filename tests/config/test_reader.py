"""Reading YAML text: what is accepted, and the message for each thing that is not."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.config import Document, parse
from npusim.config.reader import SIZE_LIMIT
from npusim.errors import ConfigError

YAML_LIKE = st.text(alphabet="ab01 :-,[]{}&*!|>'\"#%\n\t\r?<\\~.ux\x00é\u2028\ud800", max_size=80)


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(text, "f.yaml")
    return list(caught.value.problems)


def test_collections_and_every_style_of_string() -> None:
    text = "plain: a b\nsingle: 'it''s'\ndouble: \"\\u00e9\\n\"\nblock: |\n  x\n  y\n"
    text += "folded: >-\n  x\n  y\nlist: [1, {a: 2}]\n"
    assert parse(text).data == {
        "plain": "a b",
        "single": "it's",
        "double": "é\n",
        "block": "x\ny\n",
        "folded": "x y",
        "list": [1, {"a": 2}],
    }


def test_quoted_scalars_are_strings() -> None:
    assert parse("""['1', "true", 'null', '']""").data == ["1", "true", "null", ""]


def test_any_scalar_is_a_key_by_its_text() -> None:
    assert parse("no: 1\n8: 2\n012: 3\nnull: 4\n'<<': 5").data == {"no": 1, "8": 2, "012": 3, "null": 4, "<<": 5}


def test_anchors_and_aliases() -> None:
    assert parse("a: &x {k: &y 1}\nb: *x\nc: [*y, *x]").data == {"a": {"k": 1}, "b": {"k": 1}, "c": [1, {"k": 1}]}
    assert parse("&k key: 1\nb: *k").data == {"key": 1, "b": "key"}


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "null"])
def test_nothing_is_null(text: str) -> None:
    assert parse(text).data is None


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_line_ends_and_byte_order_mark(line_end: str) -> None:
    document = parse("\ufeffa: 1\nb:\n  c: été\n".replace("\n", line_end))
    assert document.data == {"a": 1, "b": {"c": "été"}}
    assert document.position(("a",)) == (1, 4)
    assert document.position(("b", "c")) == (3, 6)


def test_a_marker_of_one_document_is_fine() -> None:
    assert parse("%YAML 1.2\n---\na: 1\n...\n").data == {"a": 1}


def test_duplicate_key_is_refused_at_the_second() -> None:
    assert problems("rows: 16\nrows: 32\n") == ["f.yaml:2:1: rows: the key is given twice, first on line 1; remove one"]
    assert problems("a: [{b: {c: 1, c: 1}}]") == [
        "f.yaml:1:16: a.0.b.c: the key is given twice, first on line 1; remove one"
    ]
    # A key is its text, so these are one key.
    assert "the key is given twice" in problems("'1': a\n1: b")[0]


def test_all_faults_of_a_text_at_once() -> None:
    found = problems("a: 010\nb: !!str 1\nc: *x\na: 1\n<<: {}\n")
    assert [problem.split(" ")[0] for problem in found] == [
        "f.yaml:1:4:",
        "f.yaml:2:4:",
        "f.yaml:3:4:",
        "f.yaml:4:1:",
        "f.yaml:5:1:",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 012", r"f.yaml:1:4: a: 012 has a leading zero; write 12 \(decimal\), 0o12 \(octal"),
        ("a: " + "9" * 200, "f.yaml:1:4: a: a number of 200 characters; at most 100 are read"),
        ("b: {}\n<<: {a: 1}", r"f.yaml:2:1: merge keys \('<<'\) are not part of YAML 1.2; write the keys out"),
        (
            "a: !!python/object:os.system {}",
            "f.yaml:1:4: a: the tag '!!python/object:os.system' is not accepted; remove",
        ),
        ("a: !!int 3", "f.yaml:1:4: a: the tag '!!int' is not accepted"),
        ("a: ! x", "f.yaml:1:4: a: the tag '!' is not accepted"),
        ("a: 1\n---\nb: 2", "f.yaml:2:1: a second document starts here; keep one in a file"),
        (
            "%YAML 1.1\n---\na: 1",
            "f.yaml:1:1: the text declares YAML 1.1, but is read as YAML 1.2; remove the %YAML line",
        ),
        ("a: &x [1, *x]", r"f.yaml:1:11: a.1: the alias \*x stands inside the value it refers to"),
        ("a: &x {b: *x}", r"f.yaml:1:11: a.b: the alias \*x stands inside the value it refers to"),
        ("a: *x", r"f.yaml:1:4: a: the alias \*x has no anchor &x before it"),
        ("? [1]\n: 2", "f.yaml:1:3: a key must be text, not a list"),
        ("? {a: 1}\n: 2", "f.yaml:1:3: a key must be text, not a mapping"),
        ("a: &n 1\n*n : 2", "f.yaml:2:1: a key must be text, not 1"),
        ("a: &n b\n*n : 2\nb: 3", "f.yaml:3:1: b: the key is given twice, first on line 2"),
        ("'': 2", "f.yaml:1:1: a key is empty; write its name before the ':'"),
        ("[" * 65, "f.yaml:1:65: lists and mappings are nested deeper than 64 levels"),
        ("- " * 100000, "f.yaml:1:129: lists and mappings are nested deeper than 64 levels"),
        (r'a: "\ud800"', "f.yaml:1:4: a: half of a surrogate pair is no character"),
        (r'a: "\UFFFFFFFF"', "f.yaml:1:7: not valid YAML: a number in an escape or a directive is too large"),
        ("%YAML 1." + "9" * 5000 + "\n---\n", "not valid YAML: a number in an escape or a directive is too large"),
        ("a: 1\nb: \x00", r"f.yaml:2:4: character U\+0000 is not allowed in YAML text; is this a binary file\?"),
        ("a: 1\r\nb: x\u2028y", r"f.yaml:2:5: character U\+2028 is not allowed in YAML text; write it as an escape"),
        ("a: \ud800", r"f.yaml:1:4: character U\+D800 is not allowed"),
        ("chip:\n\trows: 16\n", "f.yaml:2:1: a tab, where YAML is laid out with spaces only; replace it with spaces"),
        ("a:\n  b: 1\n  \tc: 2\n", "f.yaml:3:3: a tab, where YAML"),
        ("a:\n  b: 1\n   \tc: 2\n", "f.yaml:3:4: a tab, where YAML"),
        ("a: 1\t# one\n", "f.yaml:1:5: a tab, where YAML"),
        ("a: b: c", "f.yaml:1:5: not valid YAML: a ':' where no key can stand; check the indentation"),
        ("a: 1\n  b: 2", "f.yaml:2:4: not valid YAML: a ':' where no key can stand"),
        ("a: 1\nbcd\n", "f.yaml:3:1: not valid YAML: a key without a ':' after it .*began on line 2"),
        ("a:\n  - 1\n b: 2", "f.yaml:3:2: not valid YAML: this line does not continue the lines above"),
        ("a: {b: 1\nc: 2", "f.yaml:2:2: not valid YAML: a '{' without its '}'.*began on line 1"),
        ("a: [1\n", r"f.yaml:2:1: not valid YAML: a '\[' without its '\]'"),
        ("a: 'x\n", r"f.yaml:2:1: not valid YAML: a quote that is never closed \(what is being read began on line 1\)"),
        ("a: @x", "f.yaml:1:4: not valid YAML: text that starts with this character needs quotes"),
        (r'a: "\q"', "f.yaml:1:6: not valid YAML: .*found unknown escape character 'q'"),
    ],
)
def test_refusals(text: str, message: str) -> None:
    assert re.search(message, "\n".join(problems(text)))


def test_alias_bombs_are_bounded_in_size() -> None:
    lines = ["a0: &a0 [x, x]", *(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 50))]
    assert f"larger than {SIZE_LIMIT} characters once its aliases are written out" in problems("\n".join(lines))[0]
    long = f"a: &a {'x' * 10000}\nb: [{'*a, ' * 300}]"
    assert f"larger than {SIZE_LIMIT} characters" in problems(long)[0]


def test_alias_chains_are_bounded_in_depth() -> None:
    chain = ["a0: &a0 [x]", *(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 200))]
    assert "nested deeper than 64 levels" in problems("\n".join(chain))[0]
    assert parse("\n".join(chain[:63])).position(("a62", *[0] * 63)) == (1, 10)


@given(YAML_LIKE | st.text(max_size=80))
def test_any_text_is_a_document_or_a_config_error(text: str) -> None:
    try:
        document = parse(text)
    except ConfigError as error:
        assert all(re.match(r"<text>:[1-9]\d*:[1-9]\d*: .", problem) for problem in error.problems)
        assert all(problem.isprintable() for problem in error.problems)
    else:
        assert isinstance(document, Document)
        assert document.data == parse(text).data or "nan" in text.lower()
