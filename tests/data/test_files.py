"""Files: every kind and packing is read, text stays text, and damage is named with its line."""

import csv
import gzip
import json
import math
from datetime import UTC, datetime

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather, ipc, parquet

from evalframe.core.errors import ColumnNotFoundError, DatasetError
from evalframe.data import Dataset

TIMES = pd.DatetimeIndex(["2024-05-01", "2024-05-03"], tz="Europe/Berlin")
ROWS = [{"input": "1+1", "output": "2"}, {"input": "ä", "output": None}]


def rows_of(dataset):
    """The dataset as dicts."""
    columns = [dataset.column(label).values(slice(None)) for label in dataset.columns]
    return [dict(zip(dataset.columns, cells, strict=True)) for cells in zip(*columns, strict=True)]


def packed(path, data):
    """Write bytes to a file, packed as its suffix says."""
    if path.suffix == ".zst":
        with pa.output_stream(path, compression="zstd") as stream:
            stream.write(data)
    else:
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def arrow_bytes(write):
    """What a writer of Arrow tables writes."""
    sink = pa.BufferOutputStream()
    write(pa.Table.from_pylist(ROWS), sink)
    return sink.getvalue().to_pybytes()


def ipc_stream(table, sink):
    """The streaming form of an Arrow file."""
    with ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


CONTENT = {
    "parquet": arrow_bytes(parquet.write_table),
    "feather": arrow_bytes(feather.write_feather),
    "arrow": arrow_bytes(ipc_stream),
    "ipc": arrow_bytes(feather.write_feather),
    "csv": 'input,output\n1+1,"2"\nä,\n'.encode(),
    "tsv": "input\toutput\n1+1\t2\nä\t\n".encode(),
    "json": json.dumps(ROWS).encode(),
    "jsonl": "\n".join(json.dumps(row) for row in ROWS).encode(),
    "ndjson": "\r\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS).encode(),
}


@pytest.mark.parametrize("packing", ["", ".gz", ".zst"])
@pytest.mark.parametrize("suffix", CONTENT)
def test_every_kind_of_file_is_read(tmp_path, suffix, packing):
    """The same rows in any kind of file, packed or not, are the same dataset."""
    path = packed(tmp_path / f"rows.{suffix}{packing}", CONTENT[suffix])

    assert rows_of(Dataset(path)) == rows_of(Dataset(str(path))) == ROWS
    assert str(Dataset(path).to_pandas()["output"].dtype) == "string"


def test_suffix_may_be_in_capitals(tmp_path):
    """Rows.CSV is a CSV file."""
    path = packed(tmp_path / "Rows.CSV", CONTENT["csv"])

    assert rows_of(Dataset(path)) == ROWS


@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param("no.csv", "there is no such file", id="missing"),
        pytest.param("no*.csv", "no file matches this pattern", id="glob-without-match"),
        pytest.param(
            "a.docx",
            r"the suffix '\.docx' is unknown\. What is read: \.parquet, .*\.jsonl",
            id="unknown",
        ),
        pytest.param("a.txt.gz", r"the suffix '\.txt' is unknown", id="unknown-packed"),
        pytest.param("plain", "its name has no suffix", id="no-suffix"),
        pytest.param("", r"it is a directory\. Pass a glob: .*\*\.parquet", id="directory"),
    ],
)
def test_path_that_cannot_be_read_says_why(tmp_path, name, message):
    """The message begins with the path as it was given, and says what to do."""
    path = tmp_path / name if name else tmp_path

    with pytest.raises(DatasetError, match=f"^Cannot read '{tmp_path}.*{message}"):
        Dataset(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("s3://bucket/rows.csv", "addresses are not fetched", id="address"),
        pytest.param('{"input": "x"}\n{"input": "y"}', "this is no path", id="content-for-a-path"),
    ],
)
def test_text_that_is_no_path_is_refused(text, message):
    """A text is always taken for a path."""
    with pytest.raises(DatasetError, match=f"^Cannot read .*{message}"):
        Dataset(text)


@pytest.mark.parametrize(
    "name",
    ["a.parquet", "a.arrow", "a.csv.gz", "a.jsonl.zst", "a.json.gz"],
)
def test_file_that_is_something_else_is_named(tmp_path, name):
    """Content of another kind than the name says is an error with the file's name."""
    path = tmp_path / name
    path.write_bytes(b"\x00\x01 not what it says")

    with pytest.raises(DatasetError, match=f"^Cannot read '{path}': "):
        Dataset(path)


def test_json_text_never_becomes_a_number_or_a_date(tmp_path):
    """Strings stay strings, whatever they look like."""
    row = {"a": "2024-05-01T13:00:00Z", "b": "12", "c": "true", "d": "null", "e": "1.0", "f": ""}
    path = packed(tmp_path / "rows.jsonl", json.dumps(row).encode())

    assert rows_of(Dataset(path)) == [row]


def test_json_values_keep_their_types(tmp_path):
    """Whole numbers stay whole, dicts keep their keys, and what is absent is null."""
    path = tmp_path / "rows.jsonl"
    path.write_text(
        '{"n": 1, "m": {"a": 1}}\n{"n": 2.0, "m": {"b": null}}\n{"n": 12345678901234567890123}\n'
    )

    found = rows_of(Dataset(path))

    assert found == [
        {"n": 1, "m": {"a": 1}},
        {"n": 2.0, "m": {"b": None}},
        {"n": 12345678901234567890123, "m": None},
    ]
    assert [type(row["n"]) for row in found] == [int, float, int]


def test_json_lines_may_have_blanks_a_bom_and_nan(tmp_path):
    """A byte order mark, blank lines and Python's NaN and Infinity are no damage."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"x": [NaN, Infinity]}\n\n  \r\n{"x": []}\n')

    first, second = rows_of(Dataset(path))

    assert math.isnan(first["x"][0])
    assert first["x"][1] == math.inf
    assert second == {"x": []}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(
            b'{"a": 1}\n{"a": 2}\n{"a": ', "line 3 is not valid JSON: .*stopped", id="torn"
        ),
        pytest.param(b'{"a": 1}\n\nnope\n', "line 3 is not valid JSON", id="invalid"),
        pytest.param(
            b'{"a": 1}{"a": 2}\n', "line 1 is not valid JSON: Extra data", id="two-in-a-line"
        ),
        pytest.param(b'{"a": 1}\n[1]\n', "line 2 is an array, not an object", id="array"),
        pytest.param(b'{"a": 1}\n"x"\n', "line 2 is a text, not an object", id="text"),
        pytest.param(b"{}\nnull\n", "line 2 is null, not an object", id="null"),
        pytest.param(b"{}\n7\n", "line 2 is a number, not an object", id="number"),
        pytest.param(b'{}\n{"a": "\xe9"}\n', "line 2 is not UTF-8", id="latin-1"),
        pytest.param(b"{}\n" + b"[" * 100_000, "line 2 cannot be parsed", id="too-deep"),
    ],
)
def test_damaged_json_line_is_named(tmp_path, content, message):
    """The error names the file and the line."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)

    with pytest.raises(DatasetError, match=f"^Cannot read '{path}': {message}"):
        Dataset(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b'{"a": 1}', "it holds an object, not an array of objects", id="object"),
        pytest.param(
            b'{"a": 1}\n{"a": 2}', r"line 2 is not valid JSON.*name the file \.jsonl", id="lines"
        ),
        pytest.param(b'[{"a": 1}, 3]', "item 1 of the array is a number", id="number-in-it"),
        pytest.param(b'[{"a": 1},\n{"b"', "line 2 is not valid JSON", id="torn"),
        pytest.param(b'[\n{"a": "\xe9"}]', "line 2 is not UTF-8", id="latin-1"),
        pytest.param(b"", "line 1 is not valid JSON", id="empty"),
    ],
)
def test_json_file_must_be_an_array_of_objects(tmp_path, content, message):
    """Anything else is refused, saying what it is and where."""
    path = tmp_path / "rows.json"
    path.write_bytes(content)

    with pytest.raises(DatasetError, match=f"^Cannot read '{path}': {message}"):
        Dataset(path)


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json"])
def test_json_file_without_rows_is_an_empty_dataset(tmp_path, name):
    """No lines, or an empty array, are no rows and no columns."""
    path = tmp_path / name
    path.write_text("" if name.endswith("l") else "[]")

    assert (len(Dataset(path)), Dataset(path).columns) == (0, [])


def test_only_an_empty_csv_field_without_quotes_is_null(tmp_path):
    """Quoted emptiness is empty text, and the words for missing values are words."""
    path = tmp_path / "rows.csv"
    path.write_text('a,b\n,""\nNA,null\nNaN," "\n')

    assert rows_of(Dataset(path)) == [
        {"a": None, "b": ""},
        {"a": "NA", "b": "null"},
        {"a": "NaN", "b": " "},
    ]


def test_csv_columns_are_text_unless_types_say_else(tmp_path):
    """Codes keep their zeros, and a column becomes numbers only on demand."""
    path = tmp_path / "rows.csv"
    path.write_text("id,score,day\n007,1,2024-05-01\n010,,2024-05-02\n")

    assert rows_of(Dataset(path))[0] == {"id": "007", "score": "1", "day": "2024-05-01"}
    assert rows_of(Dataset(path, types={"score": float}))[0]["score"] == 1.0
    assert rows_of(Dataset(path, types={"score": float}))[1]["score"] is None


CELLS = (
    st.none()
    | st.text(alphabet=st.characters(codec="utf-8"), max_size=8)
    | st.sampled_from(["", '"', '""', "a,b", "line\nbreak", "cr\rlf\r\n", " x ", "NA", "'", "\t"])
)


@given(st.lists(st.tuples(CELLS, CELLS), max_size=6), st.sampled_from([",", "\t"]))
def test_any_text_survives_csv(tmp_path_factory, rows, delimiter):
    """Quotes, delimiters, line breaks and empty texts come back as they were written."""
    path = tmp_path_factory.mktemp("csv") / ("rows.csv" if delimiter == "," else "rows.tsv")
    lines = [
        delimiter.join("" if cell is None else '"' + cell.replace('"', '""') + '"' for cell in row)
        for row in rows
    ]
    path.write_bytes("\n".join([f"a{delimiter}b", *lines]).encode())

    assert [tuple(row.values()) for row in rows_of(Dataset(path))] == rows


def test_csv_writers_of_others_are_understood(tmp_path):
    """What Python's csv module, pandas and polars write is read back."""
    rows = [{"a": 'say "hi"', "b": "x,\ny"}, {"a": "", "b": "z"}]
    with (tmp_path / "1.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["a", "b"], quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(rows)
    pd.DataFrame(rows).to_csv(tmp_path / "2.csv", index=False, quoting=csv.QUOTE_ALL)
    pl.DataFrame(rows).write_csv(tmp_path / "3.csv", include_bom=True)

    assert [rows_of(Dataset(tmp_path / f"{n}.csv")) for n in (1, 2, 3)] == [rows, rows, rows]


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        pytest.param(b"a,b", [], id="header-only"),
        pytest.param(b"a,b\r\n", [], id="header-only-with-its-end"),
        pytest.param(b"\xef\xbb\xbfa,b\n1,2", [{"a": "1", "b": "2"}], id="bom"),
        pytest.param(b"\n\na,b\n\n1,2\n\n", [{"a": "1", "b": "2"}], id="blank-lines"),
        pytest.param(b'"a,1",b\r\n1,2\r\n', [{"a,1": "1", "b": "2"}], id="quoted-header"),
        pytest.param(b'a\nsize 5" pipe\n', [{"a": 'size 5" pipe'}], id="stray-quote"),
        pytest.param(b",a\n0,x\n", [{"": "0", "a": "x"}], id="unnamed-column"),
    ],
)
def test_csv_need_not_be_tidy(tmp_path, content, rows):
    """What is unusual but clear is read."""
    path = tmp_path / "rows.csv"
    path.write_bytes(content)

    dataset = Dataset(path)

    assert rows_of(dataset) == rows
    assert {str(dtype) for dtype in dataset.to_pandas().dtypes} == {"string"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "it has no header line", id="empty"),
        pytest.param(b"a,b\n1,2\n3\n", "line 3 has 1 fields, and the header has 2", id="too-few"),
        pytest.param(
            b'a,b\n"x\ny",2\n1,2,3\n', "line 4 has 3 fields, and the header has 2", id="too-many"
        ),
        pytest.param(
            b"a,b,a\n1,2,3\n", "its header names 'a' more than once", id="duplicate-names"
        ),
        pytest.param(b"a,b\n1,2\n\xe9,2\n", "line 3 is not UTF-8", id="latin-1"),
        pytest.param(b"\xe9,b\n1,2\n", "line 1 is not UTF-8", id="latin-1-header"),
        pytest.param(
            b'a,b\n1,2\n3,"torn te', "the row that begins in line 3 is damaged", id="torn"
        ),
    ],
)
def test_damaged_csv_is_named_with_its_line(tmp_path, content, message):
    """The error names the file and the line, and nothing is read in part."""
    path = tmp_path / "rows.csv"
    path.write_bytes(content)

    with pytest.raises(DatasetError, match=f"^Cannot read '{path}': {message}"):
        Dataset(path)


def test_csv_field_may_be_larger_than_any_block(tmp_path):
    """A text of many megabytes is one field like any other."""
    path = tmp_path / "rows.csv"
    text = "x" * 40_000_000
    path.write_text(f'a,b\n1,"{text}"\n2,y\n')

    first, second = rows_of(Dataset(path))

    assert (len(first["b"]), second) == (40_000_000, {"a": "2", "b": "y"})


@pytest.mark.parametrize(
    ("types", "cells"),
    [
        pytest.param({"x": int}, [3, None], id="int"),
        pytest.param({"x": float}, [3.0, None], id="float"),
        pytest.param({"x": "int32"}, [3, None], id="arrow-name"),
        pytest.param({"x": "Int64"}, [3, None], id="pandas-name"),
        pytest.param({"x": "float"}, [3.0, None], id="python-name"),
        pytest.param({"x": pa.int8()}, [3, None], id="arrow-type"),
        pytest.param({"x": pd.Float64Dtype()}, [3.0, None], id="pandas-type"),
        pytest.param({"x": pd.ArrowDtype(pa.int16())}, [3, None], id="arrow-backed-type"),
        pytest.param({"x": pd.StringDtype()}, ["3", None], id="pandas-text"),
        pytest.param({"x": str}, ["3", None], id="text"),
    ],
)
def test_types_are_named_in_any_usual_way(tmp_path, types, cells):
    """Python types, Arrow types and their names cast a column; null stays null."""
    path = tmp_path / "rows.csv"
    path.write_text("x,y\n3,a\n,b\n")

    assert [row["x"] for row in rows_of(Dataset(path, types=types))] == cells


@pytest.mark.parametrize(
    ("wanted", "text", "value"),
    [
        pytest.param(bool, "true", True, id="bool"),
        pytest.param("datetime", "2024-05-01 13:00:00", datetime(2024, 5, 1, 13), id="naive"),
        pytest.param(
            datetime, "2024-05-01T13:00:00Z", datetime(2024, 5, 1, 13, tzinfo=UTC), id="utc"
        ),
        pytest.param(
            datetime, "2024-05-01T13:00:00+02:00", datetime(2024, 5, 1, 11, tzinfo=UTC), id="offset"
        ),
        pytest.param(
            "timestamp[us, tz=UTC]",
            "2024-05-01T13:00:00Z",
            datetime(2024, 5, 1, 13, tzinfo=UTC),
            id="named",
        ),
        pytest.param(
            "datetime64[us, UTC]",
            "2024-05-01T13:00:00Z",
            datetime(2024, 5, 1, 13, tzinfo=UTC),
            id="pandas-name",
        ),
    ],
)
def test_text_is_cast_on_demand(wanted, text, value):
    """What the text says is what the value is."""
    assert rows_of(Dataset([{"x": text}], types={"x": wanted})) == [{"x": value}]


@pytest.mark.parametrize(
    ("cells", "wanted", "message"),
    [
        pytest.param(
            ["1", "2", "n/a"], float, "Column 'x', row 2: 'n/a' cannot become double", id="text"
        ),
        pytest.param(
            [1.0, 1.5], int, r"Column 'x', row 1: 1\.5 cannot become int64", id="fraction"
        ),
        pytest.param([1, "a"], int, "Column 'x', row 1: 'a' cannot become int64", id="mixed"),
        pytest.param([[1]], str, r"Column 'x', row 0: \[1\] cannot become large_string", id="list"),
        pytest.param(
            ["a"], list, r"types\['x'\] is <class 'list'>, which is no type", id="no-type"
        ),
        pytest.param(
            ["a"], "category", r"types\['x'\] is 'category', which is no type", id="category"
        ),
        pytest.param(["a"], "nope", r"types\['x'\] is 'nope', which is no type", id="no-name"),
    ],
)
def test_value_that_cannot_be_cast_is_named(cells, wanted, message):
    """The error names column, row and value; nothing becomes null by casting."""
    with pytest.raises(DatasetError, match=message):
        Dataset([{"x": cell} for cell in cells], types={"x": wanted})


def test_mixed_values_become_one_type():
    """Whole numbers beside floats become floats, and text beside numbers text."""
    assert rows_of(Dataset([{"x": 1}, {"x": 2.5}], types={"x": float})) == [{"x": 1.0}, {"x": 2.5}]
    assert rows_of(Dataset([{"x": 1}, {"x": "a"}], types={"x": str})) == [{"x": "1"}, {"x": "a"}]


def test_unknown_column_in_types_is_named():
    """All of them, with the nearest name."""
    with pytest.raises(
        ColumnNotFoundError, match=r"Column 'scor' \(types\).*Did you mean 'score'.*'y'"
    ):
        Dataset([{"score": 1}], types={"scor": float, "y": int})


def test_glob_reads_files_in_the_order_of_their_names(tmp_path):
    """Rows follow each other file by file; a column that a file lacks is null in its rows."""
    packed(tmp_path / "b.csv.gz", b"x,z\n3,c\n")
    packed(tmp_path / "a.csv", b"x,y\n1,a\n2,b\n")
    (tmp_path / "c.csv").mkdir()

    dataset = Dataset(tmp_path / "*.csv*")

    assert rows_of(dataset) == [
        {"x": "1", "y": "a", "z": None},
        {"x": "2", "y": "b", "z": None},
        {"x": "3", "y": None, "z": "c"},
    ]
    assert list(dataset.index) == [0, 1, 2]


def test_glob_of_json_files_is_one_list_of_rows(tmp_path):
    """Arrays and lines may be mixed, and so may types: each value stays what it is."""
    (tmp_path / "a.json").write_text('[{"x": 1}]')
    (tmp_path / "b.jsonl").write_text('{"x": "one", "y": {}}\n')

    assert rows_of(Dataset(f"{tmp_path}/?.json*")) == [{"x": 1, "y": None}, {"x": "one", "y": {}}]


def test_file_whose_name_looks_like_a_glob_is_read(tmp_path):
    """A name with brackets is a name, if there is such a file."""
    path = packed(tmp_path / "rows[1].csv", b"a\nx\n")

    assert rows_of(Dataset(path)) == [{"a": "x"}]


def test_glob_of_several_kinds_is_refused(tmp_path):
    """Which file came first would decide the types."""
    packed(tmp_path / "a.csv", CONTENT["csv"])
    packed(tmp_path / "a.jsonl", CONTENT["jsonl"])

    with pytest.raises(DatasetError, match=r"files of several kinds \('CSV', 'JSON'\)"):
        Dataset(tmp_path / "a.*")


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        pytest.param(
            pa.array([1], "int32"), pa.array([2], "int64"), "int64[pyarrow]", id="wider-int"
        ),
        pytest.param(pa.array(["a"]), pa.array(["b"], "large_string"), "string", id="text"),
        pytest.param(pa.array([None]), pa.array(["b"]), "string", id="null-beside-text"),
        pytest.param(
            pa.array([["a"]]),
            pa.array([[]], pa.list_(pa.null())),
            "list<element: string>[pyarrow]",
            id="empty-lists",
        ),
        pytest.param(
            pa.array([{"a": 1.0}], pa.struct({"a": pa.float32()})),
            pa.array([{"a": 2.0}]),
            "struct<a: double>[pyarrow]",
            id="inside-a-struct",
        ),
    ],
)
def test_types_of_files_are_widened_without_loss(tmp_path, first, second, merged):
    """Files that differ only in width become the wider type."""
    parquet.write_table(pa.table({"x": first}), tmp_path / "1.parquet")
    parquet.write_table(pa.table({"x": second}), tmp_path / "2.parquet")

    dataset = Dataset(tmp_path / "*.parquet")

    assert str(dataset.to_pandas()["x"].dtype) == merged
    assert dataset.column("x").values(slice(None)) == [*first.to_pylist(), *second.to_pylist()]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param([1], ["a"], id="number-and-text"),
        pytest.param([1], [1.5], id="whole-and-float"),
        pytest.param([{"a": 1}], [{"b": 1}], id="other-keys"),
        pytest.param([[1]], [["a"]], id="inside-lists"),
    ],
)
def test_types_of_files_that_disagree_are_named(tmp_path, first, second):
    """The error names the column, both types and both files."""
    parquet.write_table(pa.table({"x": first}), tmp_path / "1.parquet")
    parquet.write_table(pa.table({"x": second}), tmp_path / "2.parquet")

    with pytest.raises(
        DatasetError, match=r"Column 'x' is .* in '.*1\.parquet' and .* in '.*2\.parquet'"
    ):
        Dataset(tmp_path / "*.parquet")


def test_files_of_which_one_keeps_a_column_as_json_fit_together(tmp_path):
    """Native and JSON storage of one column are one column of the same values."""
    cells = [[["a"], ["b"]], [["c"], {"d": 1}]]
    for number, part in enumerate(cells):
        table = Dataset([{"tags": cell} for cell in part]).to_arrow()
        parquet.write_table(table, tmp_path / f"{number}.parquet")

    dataset = Dataset(tmp_path / "*.parquet")

    assert dataset.column("tags").values(slice(None)) == [["a"], ["b"], ["c"], {"d": 1}]


@pytest.mark.parametrize(
    "index",
    [
        pytest.param(pd.Index(["a", "a"], name="id"), id="duplicate-text"),
        pytest.param(pd.Index([0.5, 9.9]), id="float"),
        pytest.param(pd.RangeIndex(4, 8, 2), id="range"),
        pytest.param(TIMES, id="times"),
        pytest.param(
            pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["k", None]), id="multi"
        ),
    ],
)
def test_parquet_file_of_pandas_keeps_index_and_attrs(tmp_path, index):
    """What pandas notes in a file, Dataset reads."""
    frame = pd.DataFrame({"x": ["a", "b"]}, index=index)
    frame.attrs["note"] = "kept"
    frame.to_parquet(tmp_path / "rows.parquet")

    back = Dataset(tmp_path / "rows.parquet").to_pandas()

    pd.testing.assert_index_equal(back.index, index, exact="equiv")
    assert back.attrs == {"note": "kept"}
    assert list(back.columns) == ["x"]


def test_parquet_files_of_pandas_keep_their_indexes_together(tmp_path):
    """Labels of several files follow each other as their rows do."""
    for number, label in enumerate("ab"):
        pd.DataFrame({"x": [number]}, index=[label]).to_parquet(tmp_path / f"{number}.parquet")

    assert list(Dataset(tmp_path / "*.parquet").index) == ["a", "b"]


def test_json_marks_are_read_from_files(tmp_path):
    """A column stored as JSON text by evalframe comes back as its values; other text does not."""
    rows = [{"m": {"a": (1,)}, "t": '{"a": 1}'}, {"m": None, "t": "x"}]
    parquet.write_table(Dataset(rows).to_arrow(), tmp_path / "rows.parquet")

    assert rows_of(Dataset(tmp_path / "rows.parquet")) == rows


def test_false_json_mark_is_named(tmp_path):
    """Text that is marked as JSON and is none is damage."""
    field = pa.field("m", pa.large_string(), metadata={"evalframe": "json"})
    parquet.write_table(pa.table([["{"]], schema=pa.schema([field])), tmp_path / "rows.parquet")

    with pytest.raises(
        DatasetError, match="Column 'm' is marked as JSON text by evalframe, and is not"
    ):
        Dataset(tmp_path / "rows.parquet")


@pytest.mark.parametrize(
    "notes",
    [
        pytest.param(b"{", id="no-json"),
        pytest.param(b"[]", id="no-object"),
        pytest.param(b'{"index_columns": ["gone"]}', id="no-such-column"),
        pytest.param(b'{"index_columns": [{"kind": "range"}]}', id="range-without-numbers"),
        pytest.param(
            b'{"index_columns": [{"kind": "range", "start": 0, "stop": 9, "step": 1}]}',
            id="range-of-another-length",
        ),
        pytest.param(
            b'{"index_columns": ["x"], "columns": [{"field_name": "x"}]}', id="half-a-note"
        ),
    ],
)
def test_notes_of_pandas_that_do_not_fit_are_ignored(tmp_path, notes):
    """A table that was changed after pandas described it is read as it is."""
    table = pa.table({"x": ["a", "b"]}).replace_schema_metadata({"pandas": notes})
    parquet.write_table(table, tmp_path / "1.parquet")
    parquet.write_table(table, tmp_path / "2.parquet")

    one, both = Dataset(tmp_path / "1.parquet"), Dataset(tmp_path / "*.parquet")

    assert (rows_of(one), list(one.index)) == ([{"x": "a"}, {"x": "b"}], [0, 1])
    assert (len(both), list(both.index)) == (4, [0, 1, 2, 3])


def test_h19_lists_of_a_file_that_pandas_read_are_lists(tmp_path):
    """Arrays that the plain pandas reader makes of lists are Python lists of str again."""
    contexts = [["x", "y"], []]
    table = Dataset([{"retrieval_context": context} for context in contexts]).to_arrow()
    parquet.write_table(table, tmp_path / "rows.parquet")

    dataset = Dataset(pd.read_parquet(tmp_path / "rows.parquet"))
    found = dataset.column("retrieval_context").values(slice(None))

    assert [json.dumps(context) for context in found] == ['["x", "y"]', "[]"]
