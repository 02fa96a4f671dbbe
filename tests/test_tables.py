import csv
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnnpool import tables
from cnnpool.tables import Column

NAMES = Column("choice", ["max", "max_blur"], words=True)
NUMBERS = Column("accuracy (%)", ["93.10", "9.5"])
NASTY = 'a|b `c` *d* [e](f) <script> & "g" $5_000% #1 {x} \\y ~^ ±–\nnext\tline\x1b[31m\x07 \ud800'


def test_text_has_words_flush_left_and_numbers_flush_right():
    assert tables.text([NAMES, NUMBERS]) == (
        "choice    accuracy (%)\n"
        "--------  ------------\n"
        "max              93.10\n"
        "max_blur           9.5\n"
    )  # fmt: skip


@pytest.mark.parametrize("width", [10, 22, 23, 36, 37])
def test_columns_without_room_follow_below_led_by_the_first(width):
    columns = [NAMES, NUMBERS, Column("loss", ["0.1", "0.25"]), Column("verdict", ["", "better"], words=True)]
    parts = tables.text(columns, width).split("\n\n")
    heads = [part.splitlines()[0].split("  ") for part in parts]
    assert all(part.startswith("choice") for part in parts)
    named = [name.strip() for head in heads for name in head if name.strip() not in ("", "choice")]
    assert named == ["accuracy (%)", "loss", "verdict"]
    assert all(len(line) <= max(width, 22) for line in tables.text(columns, width).splitlines())
    assert len(parts) == {10: 3, 22: 3, 23: 2, 36: 2, 37: 1}[width]


def test_rows_become_columns():
    assert tables.from_rows(["name", "n"], [["a", "1"], ["b", "2"]], numbers=["n"]) == [
        Column("name", ["a", "b"], words=True),
        Column("n", ["1", "2"]),
    ]
    assert tables.from_rows(["name"], []) == [Column("name", [], words=True)]
    with pytest.raises(ValueError):
        tables.from_rows(["name", "n"], [["a"]])


def test_markdown_by_hand():
    expected = "| choice | accuracy (%) |\n| :--- | ---: |\n| max | 93.10 |\n| max\\_blur | 9.5 |"
    assert tables.markdown([NAMES, NUMBERS]) == expected
    bold = [Column("**a**", ["`x|y`"], words=True)]
    assert tables.markdown(bold, markup=True) == "| **a** |\n| :--- |\n| `x\\|y` |"


def test_latex_by_hand():
    assert tables.latex([NAMES, NUMBERS]) == (
        "\\begin{tabular}{lr}\n\\toprule\nchoice & accuracy (\\%) \\\\\n\\midrule\n"
        "max & 93.10 \\\\\nmax\\_blur & 9.5 \\\\\n\\bottomrule\n\\end{tabular}\n"
    )


def test_latex_knows_signs_and_marks():
    cells = ["-1.30 [-1.50, -1.10]", "time †", "max-pool", "p < 0.001"]
    found = tables.latex([Column("x ≥ 1", cells)])
    assert "$-$1.30 [$-$1.50, $-$1.10]" in found and "time \\textdagger{}" in found and "max-pool" in found
    assert found.isascii()
    words = tables.latex([Column("α, mean of stages (%)", ["[x]", "* y", "o_p," * 12], words=True)])
    assert r"\parbox[b]{8em}{\raggedright $\alpha$, mean of stages (\%)\strut} \\" in words
    assert "\n{}[x] " in words and "\n{}* y " in words
    assert r"\parbox[t]{20em}{\raggedright o\_\allowbreak p,\allowbreak o" in words


@pytest.mark.parametrize("show", [tables.text, tables.markdown, tables.latex])
def test_control_characters_and_broken_encodings_are_escapes(show):
    shown = show([Column("name", [NASTY], words=True), NUMBERS][:1])
    assert not any((ord(mark) < 32 and mark != "\n") or "\ud800" <= mark <= "\udfff" for mark in shown)
    assert "x1b" in shown and "ud800" in shown
    shown.encode("utf-8")


def unescaped(line, mark):
    return len(re.findall(rf"(?<!\\)(?:\\\\)*{re.escape(mark)}", line))


@given(st.lists(st.tuples(st.text(), st.text()), min_size=1, max_size=4))
def test_any_text_stays_in_its_cell(rows):
    columns = tables.from_rows(["a", "b"], rows)
    lines = tables.markdown(columns).split("\n")
    assert len(lines) == len(rows) + 2
    assert all(unescaped(line, "|") == 3 for line in lines)
    tabular = [line for line in tables.latex(columns).split("\n") if line.endswith(" \\\\")]
    assert len(tabular) == len(rows) + 1
    assert all(unescaped(line, "&") == 1 for line in tabular)
    assert all(not unescaped(line, mark) for line in tabular for mark in "%#_")
    assert len(tables.text(columns).splitlines()) == len(rows) + 2


@given(st.lists(st.tuples(st.text(), st.none() | st.floats(allow_nan=False)), min_size=1, max_size=4))
def test_csv_is_read_back_and_holds_no_formula(rows):
    source = tables.csv([{"name": name, "value": value} for name, value in rows])
    read = list(csv.DictReader(io.StringIO(source)))
    names = [tables.printable(name).removeprefix("'") for name, _ in rows]
    assert [row["name"].removeprefix("'") for row in read] == names
    assert [float(row["value"]) if row["value"] else None for row in read] == [value for _, value in rows]
    assert not any(row["name"].startswith(("=", "+", "-", "@")) for row in read)
