"""What commands print: tables, lines, numbers, JSON."""

import numpy as np
import pytest

from latentmdp.commands import common as _common
from latentmdp.commands import output as _output


def test_lines_break_between_words_below_their_column():
    line = "bound   12.5   every learner loses at least this much on average over the secrets"
    broken = _output._wrapped(line, 50).split("\n")
    assert broken[0] == "bound   12.5   every learner loses at least this"
    assert broken[1] == " " * 15 + "much on average over the secrets"
    assert _output._wrapped(line, 100) == line
    assert _output._wrapped("a " * 40, 50).split("\n")[1].startswith("  a")


def test_columns_of_numbers_have_their_points_aligned():
    assert _output.column_texts([1.0, 0.0615937, 12]) == ["1.0000", "0.0616", "12.0000"]
    assert _output.column_texts([67436.5, 282767.25]) == ["67,436", "282,767"]
    assert _output.column_texts([2.0, 1e7]) == ["2", "1e+07"]  # none loses its digits
    assert _output.column_texts([0.5, float("inf")]) == ["0.5", "inf"]
    assert _output.column_texts(["a", 0.25, 3]) == ["a", "0.25", "3"]
    assert _output.column_texts([0.0, 0]) == ["0", "0"]
    assert _output.column_texts([]) == []


@pytest.mark.parametrize(
    ("text", "number"),
    [("20", 20), ("1e9", 10**9), ("1E+3", 1000), ("2.5e1", 25), ("1_000", 1000), (" 7 ", 7),
     ("-3", -3), ("123456789012345678901", 123456789012345678901)],
)  # fmt: skip
def test_whole_numbers_are_exact(text, number):
    assert _common.whole_number(text) == number


def test_json_output_has_no_nan(capsys):
    _output.print_json({"a": float("nan"), "b": np.array([1.0, np.inf]), 3: (np.int64(2), None)})
    assert capsys.readouterr().out == '{"a": null, "b": [1.0, null], "3": [2, null]}\n'


def test_plain_table_aligns(capsys):
    _output.print_table(("name", "value"), [("a", 1.5), ("long name", 20.25)], title="Title")
    assert capsys.readouterr().out == (
        "Title\nname       value\na           1.50\nlong name  20.25\n"
    )


def test_empty_table(capsys):
    _output.print_table(("name", "value"), [])
    assert capsys.readouterr().out == "name  value\n"
