"""Parquet: what goes in comes out, and every other reader opens the file.

The cases that are named H.. were real failures of other tools.
"""

import datetime as dt
import json
import os
import subprocess
import sys
import uuid
from decimal import Decimal
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalframe.core.columns import Column
from evalframe.core.errors import DatasetError, UnsupportedValueError
from evalframe.core.run_info import EvaluatorInfo, RunInfo, remembered
from evalframe.results.parquet import read_parquet, to_parquet
from evalframe.results.stored import restored

BERLIN = ZoneInfo("Europe/Berlin")
PLUS_TWO = dt.timezone(dt.timedelta(hours=2))


def objects(*values):
    """A column of Python values; pandas infers nothing."""
    cells = np.empty(len(values), dtype=object)
    cells[:] = values
    return pd.Series(cells, dtype=object)


def arrow(kind, *values):
    """A column of an Arrow type."""
    return pd.Series(pd.arrays.ArrowExtensionArray(pa.array(values, type=kind)))


def written(frame, path, **options):
    """The frame after a way through the file."""
    to_parquet(frame, path, **options)
    return read_parquet(path)


def assert_same(read, frame):
    """Equal down to dtypes, labels, index, frequency and attrs."""
    pd.testing.assert_frame_equal(
        read, frame, check_exact=True, check_index_type="exact", check_column_type="exact"
    )
    assert read.attrs == frame.attrs


@pytest.fixture
def path(tmp_path):
    """Where a file may be written."""
    return tmp_path / "frame.parquet"


NUMPY_DTYPES = ["bool", "int8", "uint64", "float16", "float32", "float64"]
MASKED_DTYPES = ["Int64", "UInt8", "Float32", "boolean"]
STRING_DTYPES = [
    pd.StringDtype(storage, na_value=null)
    for storage in ("python", "pyarrow")
    for null in (pd.NA, np.nan)
]

COLUMNS = {
    **{kind: pd.Series([0, 1, 1], dtype=kind) for kind in NUMPY_DTYPES},
    **{kind: pd.Series([0, None, 1], dtype=kind) for kind in MASKED_DTYPES},
    **{f"{kind!r}": pd.Series(["a", None, ""], dtype=kind) for kind in STRING_DTYPES},
    **{
        f"datetime64[{unit}]": pd.Series(
            np.array(["2020-01-01", "NaT", "1960-05-05"], f"M8[{unit}]")
        )
        for unit in ("s", "ms", "us", "ns")
    },
    **{
        f"timedelta64[{unit}]": pd.Series(np.array([1, "NaT", -2], f"m8[{unit}]"))
        for unit in ("s", "ms", "us", "ns")
    },
    "float-nan-infinity": pd.Series([1.5, np.nan, np.inf]),
    "zone": pd.Series(pd.to_datetime(["2024-05-01", None, "2024-01-01"])).dt.tz_localize(BERLIN),
    "zone-seconds": pd.Series(np.array(["2024-05-01"] * 3, "M8[s]")).dt.tz_localize("UTC"),
    "zone-offset": pd.Series(pd.to_datetime(["2024-05-01"] * 3)).dt.tz_localize(PLUS_TWO),
    "period": pd.Series(pd.PeriodIndex(["2020-01", None, "2021-01"], freq="M")),
    "interval": pd.Series(pd.arrays.IntervalArray.from_breaks([0, 1, 2, 3], closed="both")),
    "interval-null": pd.Series(pd.arrays.IntervalArray.from_tuples([(0.0, 1.5), None, (2, 3)])),
    "sparse": pd.Series(pd.arrays.SparseArray([0, 0, 1])),
    "sparse-null": pd.Series(pd.arrays.SparseArray([np.nan] * 3)),
    "category-ordered-unused": pd.Series(
        pd.Categorical(["b", None, "a"], ["z", "b", "a"], ordered=True)
    ),
    "category-int": pd.Series(pd.Categorical([3, None, 1])),
    "category-mixed": pd.Series(pd.Categorical([3, None, "a"])),
    "category-interval": pd.cut(pd.Series([1.0, 2.0, None]), 2),
    "category-period": pd.Series(pd.Categorical(pd.period_range("2020", periods=3, freq="M"))),
    "category-duration": pd.Series(pd.Categorical(pd.to_timedelta([1, 2, None]))),
    "category-range": pd.Series(pd.Categorical.from_codes([0, 2, -1], pd.RangeIndex(3))),
    "category-none": pd.Series(pd.Categorical([None] * 3, categories=[])),
    "arrow-null": arrow(pa.null(), None, None, None),
    "arrow-string": arrow(pa.string(), "a", None, "b"),
    "arrow-large-string": arrow(pa.large_string(), "a", None, "b"),
    "arrow-binary": arrow(pa.binary(), b"a", None, b"\x00"),
    "arrow-list": arrow(pa.list_(pa.string()), ["a"], None, []),
    "arrow-large-list": arrow(pa.large_list(pa.string()), ["a"], None, []),
    "arrow-list-of-null": arrow(pa.list_(pa.null()), [None], None, []),
    "arrow-fixed-list": arrow(pa.list_(pa.int8(), 2), [1, 2], None, [3, 4]),
    "arrow-struct": arrow(
        pa.struct({"a": pa.int8(), "b": pa.list_(pa.int8())}), {"a": 1, "b": [1]}, None, {}
    ),
    "arrow-empty-struct": arrow(pa.struct([]), {}, None, {}),
    "arrow-map": arrow(pa.map_(pa.string(), pa.int8()), [("a", 1)], None, []),
    "arrow-dictionary": arrow(pa.dictionary(pa.int8(), pa.string()), "a", None, "a"),
    "arrow-decimal": arrow(pa.decimal128(5, 2), Decimal("1.50"), None, None),
    "arrow-time": arrow(pa.time32("s"), 1, None, 2),
    "arrow-timestamp": arrow(pa.timestamp("s", "UTC"), 1, None, 2),
    "arrow-duration": arrow(pa.duration("s"), 1, None, 2),
    "arrow-date64": arrow(pa.date64(), 86_400_000, None, 0),
    "arrow-uuid": pd.Series(
        pd.arrays.ArrowExtensionArray(
            pa.ExtensionArray.from_storage(
                pa.uuid(), pa.array([b"x" * 16, None, b"y" * 16], pa.binary(16))
            )
        )
    ),
    "arrow-double-nan": arrow(pa.float64(), 1.5, None, float("nan")),
    "object-text": objects("a", None, ""),
    "object-nothing": objects(None, None, None),
    "object-nan": objects("a", np.nan, np.nan),
    "object-all-nulls": objects(None, np.nan, pd.NA, pd.NaT, pd.NaT)[:3],
    "object-int": objects(1, 2, None),
    "object-float": objects(1.5, -0.0, None),
    "object-bool-int-float": objects(True, 1, 1.0),
    "object-big-int": objects(2**80, -1, None),
    "object-bytes": objects(b"a", b"\x00", None),
    "object-date": objects(dt.date(2024, 1, 1), None, None),
    "object-time": objects(dt.time(1), None, None),
    "object-duration": objects(dt.timedelta(days=1), None, None),
    "object-datetime": objects(dt.datetime(2024, 1, 1), None, pd.NaT),
    "object-zones": objects(
        dt.datetime(2024, 5, 1, tzinfo=BERLIN), dt.datetime(2024, 5, 1, tzinfo=PLUS_TWO), None
    ),
    "object-decimal": objects(Decimal("1.50"), Decimal("1e9"), None),
    "object-uuid": objects(uuid.UUID(int=1), None, None),
    "object-tuple-list": objects((1, [2]), [1, (2,)], None),
    "object-list": objects(["x"], [], None),
    "object-ragged-dicts": objects({"a": 1}, {"b": None, "a": 1}, {}),
    "object-json-lookalike": objects({"$tuple": [1]}, "null", '{"a": 1}'),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_column_comes_back_with_its_dtype_and_values(name, path):
    """Writing and reading is the identity, for every dtype."""
    frame = pd.DataFrame({"column": COLUMNS[name]})

    assert_same(written(frame, path), frame)


@pytest.mark.parametrize("name", COLUMNS)
def test_column_opens_in_every_other_reader(name, path):
    """Plain pandas, polars and DuckDB read the file without options."""
    to_parquet(pd.DataFrame({"column": COLUMNS[name]}), path)

    duck = duckdb.connect()
    duck.execute(f"create table opened as select * from '{path}'")  # noqa: S608

    assert duck.execute("select count(*) from opened").fetchone() == (3,)
    assert (len(pd.read_parquet(path)), len(pl.read_parquet(path))) == (3, 3)


@pytest.mark.parametrize("name", COLUMNS)
def test_no_rows_come_back_with_their_dtype(name, path):
    """An empty frame keeps its dtypes."""
    frame = pd.DataFrame({"column": COLUMNS[name]})[:0]

    assert_same(written(frame, path), frame)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(pa.string_view(), id="string-view"),
        pytest.param(pa.list_view(pa.string()), id="list-view"),
        pytest.param(pa.list_(pa.string_view()), id="list-of-views"),
        pytest.param(pa.struct({"a": pa.list_(pa.dictionary(pa.int8(), pa.string()))}), id="deep"),
    ],
)
def test_arrow_views_and_dictionaries_are_written_as_what_every_reader_knows(kind, path):
    """The frame keeps the type; the file holds the plain one."""
    values = {"string_view": ["x", None]}.get(str(kind), [["x"], None])
    values = [{"a": ["x"]}, None] if pa.types.is_struct(kind) else values
    frame = pd.DataFrame({"column": arrow(kind, *values)})
    read = written(frame, path)

    assert (read["column"].dtype, read["column"].array.__arrow_array__().to_pylist()) == (
        frame["column"].dtype,
        values,
    )
    assert len(pd.read_parquet(path)) == 2


def test_zone_that_pandas_cannot_make_from_its_name_is_the_one_that_arrow_knows():
    """A zone of dateutil is noted as nameless; the instants and the zone's name stay."""
    instants = pa.chunked_array([pa.array([0, None], pa.timestamp("us", "Europe/Berlin"))])

    assert str(restored(instants, {"dtype": None}, json=False).dtype) == (
        "datetime64[us, Europe/Berlin]"
    )


@pytest.mark.parametrize(
    "index",
    [
        pytest.param(pd.RangeIndex(3, name="row"), id="range"),
        pytest.param(pd.RangeIndex(5, -1, -2), id="range-backwards"),
        pytest.param(pd.Index([7, 7, 1], name="column"), id="duplicate-named-like-a-column"),
        pytest.param(pd.Index([0.5, np.nan, 9.9]), id="float"),
        pytest.param(pd.Index(["a", None, "b"], name=("x", 1)), id="text-tuple-name"),
        pytest.param(pd.Index(["a", "b", "c"], dtype=object), id="objects"),
        pytest.param(pd.Index([(1, 2), (3, 4), 5], tupleize_cols=False), id="tuples"),
        pytest.param(pd.date_range("2020", periods=3, freq="W", name=0), id="weeks"),
        pytest.param(pd.date_range("2020", periods=3, freq="D", tz=BERLIN), id="days-zone"),
        pytest.param(pd.DatetimeIndex(["2020", None, "2020"]), id="datetime"),
        pytest.param(pd.timedelta_range("1h", periods=3, freq="h"), id="timedelta"),
        pytest.param(pd.period_range("2020", periods=3, freq="D"), id="period"),
        pytest.param(pd.interval_range(0, 3), id="interval"),
        pytest.param(pd.CategoricalIndex(["a", "b", "a"]), id="category"),
        pytest.param(pd.Index([1, None, 3], dtype="Int64"), id="masked"),
        pytest.param(pd.Index([1, None, 3], dtype="double[pyarrow]"), id="arrow"),
        pytest.param(
            pd.MultiIndex.from_tuples([(1, "a"), (1, "b"), (2, None)], names=["x", None]),
            id="multi",
        ),
        pytest.param(pd.MultiIndex.from_arrays([[1, 2, 3]]), id="multi-of-one"),
    ],
)
def test_index_comes_back(index, path):
    """The index keeps kind, dtype, names and frequency."""
    frame = pd.DataFrame({"column": [1, 2, 3]}, index=index)

    read = written(frame, path)

    assert_same(read, frame)
    assert getattr(read.index, "freq", None) == getattr(index, "freq", None)


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param(pd.RangeIndex(3), id="range"),
        pytest.param(pd.Index([2, 1, 0], name="n"), id="int"),
        pytest.param(pd.Index([1, "1", "1_2"]), id="same-text"),
        pytest.param(pd.Index([None, ("a", 1), 2.5], tupleize_cols=False), id="mixed"),
        pytest.param(pd.DatetimeIndex(["2020", "2021", "2022"]), id="datetime"),
        pytest.param(pd.CategoricalIndex(["x", "y", "z"]), id="category"),
        pytest.param(pd.Index(["", "a.b", "ä`\n"], name="köl"), id="odd-text"),
        pytest.param(pd.Index(["__index_level_0__", "evalframe", "pandas"]), id="own-names"),
        pytest.param(pd.Index(["a", "b", "c"], dtype="string", name=3), id="string"),
    ],
)
def test_column_labels_come_back(labels, path):
    """Labels keep order, types, dtype and name, although a file has text only."""
    frame = pd.DataFrame([[1, 2, 3]], columns=labels, index=pd.Index(["r"]))

    assert_same(written(frame, path), frame)


def test_frame_without_columns_keeps_its_index(path):
    """Rows without columns are rows."""
    frame = pd.DataFrame(index=pd.RangeIndex(3, name="row"))

    assert_same(written(frame, path), frame)


def test_what_was_read_can_be_changed_in_place(path):
    """No column of the frame lies in memory that may not be written."""
    to_parquet(pd.DataFrame({"a": [1, 2], "b": [1.5, 2.5], "c": ["x", "y"]}), path)
    read = read_parquet(path)

    read.loc[0, ["a", "b", "c"]] = [9, 9.5, "z"]

    assert read.loc[0].tolist() == [9, 9.5, "z"]


def test_caller_frame_is_not_changed_by_writing(path):
    """Writing leaves the frame as it was, nested values included."""
    frame = pd.DataFrame({"a": objects({"k": [1]}, {"k": [2]}), 1: [1, 2]})
    frame.attrs = {"note": {"x": [1]}}
    before = frame.copy()

    to_parquet(frame, path)

    assert_same(frame, before)


def test_h12_attrs_that_json_keeps_survive_and_others_are_dropped_with_one_warning(path):
    """The run's own facts survive; a user's unserialisable entry is named and left out."""
    info = RunInfo(started="2024-05-01T13:00:00+02:00", evaluators={"lambda": EvaluatorInfo()})
    frame = pd.DataFrame({"a": [1]})
    frame.attrs = {
        "evalframe": info.to_json(),
        "note": {1: object()},
        "when": dt.datetime(2024, 5, 1, tzinfo=PLUS_TWO),
        "pair": (1, 2.0, None),
        7: "seven",
    }

    with pytest.warns(
        UserWarning, match=r"Not written: frame\.attrs 'note' \(a dict with the key 1"
    ):
        to_parquet(frame, path)
    read = read_parquet(path)

    del frame.attrs["note"]
    assert_same(read, frame)
    assert remembered(read.attrs) == info
    assert pd.read_parquet(path).attrs == {"evalframe": info.to_json()}


def test_h13_empty_dicts_survive_at_every_depth(path):
    """`{}` stays `{}`, at the top, inside a dict and inside a list."""
    frame = pd.DataFrame(
        {
            "metadata": objects({}, {}),
            "additional_metadata": objects({"run": {}}, {"run": {}}),
            "tools_called": objects([{"name": "now", "args": {}}], []),
        }
    )

    assert_same(written(frame, path), frame)


def test_h14_all_null_text_keeps_its_type_and_concatenates(path):
    """Columns of nothing but nulls are text, in the file and after it."""
    kind = pd.StringDtype("pyarrow")
    a = pd.DataFrame({"eval.x.explanation": pd.Series([None, None], dtype=kind)})
    b = pd.DataFrame({"eval.x.explanation": pd.Series(["good"], dtype=kind)})
    b["at"] = pd.to_datetime(["2024-05-01"]).tz_localize("UTC")
    a_file, b_file = path, path.with_name("b.parquet")

    joined = pd.concat([written(a, a_file), written(b, b_file)], ignore_index=True)

    assert pq.read_schema(a_file).types == [pa.large_string()]
    assert joined.dtypes.tolist() == [kind, b["at"].dtype]
    assert joined["eval.x.explanation"].str.upper().tolist() == [pd.NA, pd.NA, "GOOD"]


PLAIN = """
import json, sys
import pandas as pd
frame = pd.read_parquet(sys.argv[1])
print(json.dumps({
    "contexts": [list(value) for value in frame["retrieval_context"]],
    "metadata": [dict(value) for value in frame["metadata"]],
    "mixed": [json.loads(value) for value in frame["mixed"]],
    "scores": frame["eval.x.score"].astype(float).tolist(),
    "index": frame.index.tolist(),
    "attrs": frame.attrs,
}), flush=True)
# Arrow's threads and the end of the interpreter do not always agree.
import os; os._exit(0)
"""


def nested_frame():
    """Arrow lists and structs, mixed values, results, a named index, attrs."""
    frame = pd.DataFrame(
        {
            "retrieval_context": arrow(pa.list_(pa.string()), ["x"], ["x", "y"]),
            "metadata": arrow(pa.struct({"a": pa.int64()}), {"a": 1}, {"a": 2}),
            "mixed": objects("hi", [{"role": "user"}]),
            "eval.x.score": arrow(pa.float64(), 1.0, 0.5),
            "eval.x.error": pd.Series([None, None], dtype=pd.StringDtype("pyarrow")),
        }
    )
    frame.index = pd.Index([7, 3], name="id")
    frame.attrs = {"evalframe": RunInfo(experiment_name="first").to_json()}
    return frame


def test_h15_plain_pandas_opens_the_file_without_options_and_without_evalframe(path, tmp_path):
    """Lists and dicts of Arrow types are there, the index too, JSON text being text."""
    frame = nested_frame()
    to_parquet(frame, path)

    done = subprocess.run(
        [sys.executable, "-I", "-W", "error", "-c", _hidden(PLAIN), str(path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stderr == ""
    assert json.loads(done.stdout) == {
        "contexts": [["x"], ["x", "y"]],
        "metadata": [{"a": 1}, {"a": 2}],
        "mixed": ["hi", [{"role": "user"}]],
        "scores": [1.0, 0.5],
        "index": [7, 3],
        "attrs": frame.attrs,
    }


def _hidden(code):
    """The code in a process that cannot import evalframe, wherever it is installed."""
    return (
        "import sys\n"
        "class Hidden:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'evalframe': raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Hidden())\n" + code
    )


def test_h15_polars_duckdb_and_pyarrow_open_the_file(path):
    """The same values, lists as lists and dicts as structs."""
    to_parquet(nested_frame(), path)
    query = f"select retrieval_context, metadata, mixed from '{path}'"  # noqa: S608

    expected = [(["x"], {"a": 1}, '"hi"'), (["x", "y"], {"a": 2}, '[{"role": "user"}]')]
    names = ["retrieval_context", "metadata", "mixed"]
    assert pl.read_parquet(path).select(names).rows() == expected
    assert duckdb.sql(query).fetchall() == expected
    rows = pq.read_table(path).select(names).to_pylist()
    assert [tuple(row.values()) for row in rows] == expected


def test_h16_text_beside_lists_keeps_both_types(path):
    """A cell is a str and its neighbour a list of dict, before and after."""
    frame = pd.DataFrame({"input": objects("hi", [{"role": "user", "content": "hi"}])})
    read = written(frame, path)

    assert_same(read, frame)
    assert [type(value) for value in read["input"]] == [str, list]


def test_h17_times_inside_values_keep_their_zone(path):
    """The nested and the top-level instant are aware and equal, before and after."""
    at = dt.datetime(2024, 5, 1, 13, tzinfo=PLUS_TWO)
    frame = pd.DataFrame({"metadata": objects({"at": at}), "at": pd.to_datetime([at])})
    read = written(frame, path)

    assert_same(read, frame)
    instants = [read["metadata"][0]["at"], read["at"][0].to_pydatetime()]
    assert [value.astimezone(dt.UTC) for value in instants] == [at, at]
    assert [value.utcoffset() for value in instants] == [at.utcoffset()] * 2


def test_h17_naive_beside_aware_times_are_refused(path):
    """One field with and without zones is an error, not a guess."""
    values = objects(
        {"at": dt.datetime(2024, 5, 1)}, {"at": dt.datetime(2024, 5, 1, tzinfo=dt.UTC)}
    )

    with pytest.raises(UnsupportedValueError, match=r"'metadata', row 1, at \.at: a datetime"):
        to_parquet(pd.DataFrame({"metadata": values}), path)


@pytest.mark.parametrize(
    "tools",
    [
        pytest.param(
            [
                [{"name": "a", "output": None}, {"name": "b", "output": None}],
                [{"name": "c", "output": None}],
            ],
            id="one-field-null",
        ),
        pytest.param(
            [[{"output": None}, {"output": None}], [{"output": None}]], id="only-field-null"
        ),
    ],
)
def test_h18_structs_whose_field_is_null_everywhere_stay_valid(tools, path):
    """Values and lengths hold, the slice too, and Arrow finds every table valid."""
    frame = pd.DataFrame({"tools_called": objects(*tools)})
    read = written(frame, path)
    last = written(read[1:], path.with_name("last.parquet"))

    assert_same(read, frame)
    assert_same(last, frame[1:])
    for file in (path, path.with_name("last.parquet")):
        pq.read_table(file).validate(full=True)


def test_h21_numbers_in_dicts_stay_int_and_no_key_is_added(path):
    """An absent key stays absent; 3 is not 3.0."""
    frame = pd.DataFrame({"metadata": objects({"n": 3, "k": 1}, {"k": 2})})
    read = written(frame, path)

    assert repr(read["metadata"].tolist()) == "[{'n': 3, 'k': 1}, {'k': 2}]"


def test_json_text_is_marked_in_the_field(path):
    """A column of JSON text says so in its field's metadata, and no other does."""
    to_parquet(nested_frame(), path)

    marks = {field.name: field.metadata for field in pq.read_schema(path)}

    assert {name for name, mark in marks.items() if mark == {b"evalframe": b"json"}} == {"mixed"}


def test_columns_that_no_file_keeps_are_refused_together(path):
    """One error names every such column and the way out."""
    frame = pd.DataFrame({"a": [1], "b": objects({1, 2}), "c": objects(object()), "d": [1j]})

    with pytest.raises(
        UnsupportedValueError, match=r"3 of 4 columns.*\n.*'b'.*\n.*'c'.*\n.*'d'"
    ) as caught:
        to_parquet(frame, path)

    assert "drop=['b', 'c', 'd']" in str(caught.value)
    assert not path.exists()


def test_arrow_type_that_parquet_lacks_is_refused_by_name(path):
    """The type that cannot be written is named before anything is."""
    frame = pd.DataFrame({"a": arrow(pa.month_day_nano_interval(), (1, 2, 3))})

    with pytest.raises(UnsupportedValueError, match="'a': parquet has no place for the Arrow type"):
        to_parquet(frame, path)


def test_dropped_columns_are_not_written(path):
    """`drop` leaves columns out; the rest comes back."""
    frame = pd.DataFrame({"a": [1], "b": objects({1}), 3: [2]})

    assert_same(written(frame, path, drop=["b"]), frame.drop(columns="b"))
    assert_same(written(frame, path, drop="b"), frame.drop(columns="b"))


def test_unknown_name_in_drop_is_an_error_with_the_nearest(path):
    """A misspelt name is not silently nothing."""
    with pytest.raises(DatasetError, match=r"drop names 'answr', .* Did you mean 'answer'"):
        to_parquet(pd.DataFrame({"answer": [1]}), path, drop=["answr"])


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        pytest.param(
            pd.DataFrame([[1, 2]], columns=["a", "a"]), "columns are named 'a'", id="twice"
        ),
        pytest.param(pd.DataFrame({("a", "b"): [1]}), r"Flatten them: frame\.columns", id="levels"),
        pytest.param(pd.Series([1]), "a pandas DataFrame, not Series", id="series"),
        pytest.param(
            pd.DataFrame({"a": [1]}, index=pd.Index([frozenset()])),
            r"index cannot be kept .*reset_index\(drop=True\)",
            id="index",
        ),
        pytest.param(
            pd.DataFrame({"a": [1]}, index=pd.RangeIndex(1, name=frozenset())),
            "index name .* cannot be kept",
            id="index-name",
        ),
    ],
)
def test_frame_that_cannot_be_written_is_refused(frame, message, path):
    """The error says what is in the way and what to do."""
    with pytest.raises(DatasetError, match=message):
        to_parquet(frame, path)


def test_lone_surrogates_are_written_as_replacement_characters(path):
    """One warning per column says how many rows; the file is valid text."""
    text = pd.Series(["\ud800x", "fine"], dtype=pd.StringDtype("python"))
    frame = pd.DataFrame({"objects": objects("a\udfff", {"k": "\ud800"}), "text": text})

    with pytest.warns(UserWarning, match="lone surrogates in") as warned:
        read = written(frame, path)

    assert len(warned) == 2
    assert read["objects"].tolist() == ["a�", {"k": "�"}]
    assert read["text"].tolist() == ["�x", "fine"]


def test_file_appears_only_when_it_is_whole(path, monkeypatch):
    """A failure in the middle leaves the old file and nothing else."""
    frame = pd.DataFrame({"a": [1, 2]})
    to_parquet(frame, path)

    def fails(self, table, **options):
        message = "disk full"
        raise OSError(message)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", fails)
    with pytest.raises(DatasetError, match="disk full"):
        to_parquet(pd.DataFrame({"a": [3]}), path)

    assert os.listdir(path.parent) == [path.name]  # noqa: PTH208
    assert_same(read_parquet(path), frame)


def test_value_beyond_parquet_is_an_error_without_a_file(path):
    """Seconds that do not fit parquet's milliseconds are refused."""
    frame = pd.DataFrame({"a": pd.Series(np.array([2**62], "M8[s]"))})

    with pytest.raises(DatasetError, match="Parquet cannot hold a value"):
        to_parquet(frame, path)

    assert list(path.parent.iterdir()) == []


def test_link_to_a_file_stays_a_link(path):
    """The file behind a link is replaced, not the link."""
    link = path.with_name("link.parquet")
    link.symlink_to(path)

    to_parquet(pd.DataFrame({"a": [1]}), str(link))

    assert link.is_symlink()
    assert path.is_file()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param(".", "it is a folder. Add a file name", id="folder"),
        pytest.param("nowhere/a.parquet", "there is no folder .*nowhere", id="no-folder"),
    ],
)
def test_writing_to_a_place_that_is_none_is_an_error(name, message, tmp_path):
    """The error says why, and what to do."""
    with pytest.raises(DatasetError, match=message):
        to_parquet(pd.DataFrame({"a": [1]}), tmp_path / name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param(".", "it is a folder", id="folder"),
        pytest.param(
            "scord.parquet", r"no such file. Did you mean '.*scored\.parquet'", id="missing"
        ),
        pytest.param("nowhere/a.parquet", "no such file", id="no-folder"),
        pytest.param(
            "text.parquet", r"text\.parquet'.* no parquet file, or it is damaged", id="text"
        ),
        pytest.param(
            "torn.parquet", r"torn\.parquet'.* no parquet file, or it is damaged", id="torn"
        ),
    ],
)
def test_reading_what_is_no_parquet_file_is_an_error(name, message, tmp_path):
    """The error names the file."""
    to_parquet(pd.DataFrame({"a": ["x" * 1_000]}), tmp_path / "scored.parquet")
    (tmp_path / "torn.parquet").write_bytes((tmp_path / "scored.parquet").read_bytes()[:-100])
    (tmp_path / "text.parquet").write_text("a,b\n1,2\n")

    with pytest.raises(DatasetError, match=message):
        read_parquet(tmp_path / name)


def test_damaged_data_pages_are_an_error(path):
    """Bytes that went bad in the middle are noticed and named."""
    to_parquet(pd.DataFrame({"a": np.random.default_rng(0).random(5_000)}), path)
    data = bytearray(path.read_bytes())
    data[100:4_000] = b"\xff" * 3_900
    path.write_bytes(bytes(data))

    with pytest.raises(DatasetError, match=r"frame\.parquet'"):
        read_parquet(path)


def test_file_of_another_origin_is_arrow_backed_with_the_index_pandas_noted(path):
    """Text is `string`, the rest ArrowDtype; index and attrs are those of the note."""
    frame = pd.DataFrame({"a": [1], "b": ["x"]}, index=pd.Index(["r"], name="id"))
    frame.attrs = {"k": 1}
    frame.to_parquet(path)

    expected = pd.DataFrame(
        {"a": arrow(pa.int64(), 1), "b": pd.Series(["x"], dtype=pd.StringDtype("pyarrow"))}
    )
    expected.index = pd.Index(["r"], name="id", dtype=pd.StringDtype("pyarrow"))
    expected.attrs = {"k": 1}
    assert_same(read_parquet(path), expected)


@pytest.mark.parametrize(
    "index",
    [
        pytest.param(pd.RangeIndex(2, 6, 2, name="n"), id="range"),
        pytest.param(pd.MultiIndex.from_tuples([(1, 2), (3, 4)], names=["x", None]), id="multi"),
    ],
)
def test_index_of_another_origin_comes_back(index, path):
    """A range and levels as pandas notes them are read."""
    pd.DataFrame({"a": [1, 2]}, index=index).to_parquet(path)
    read = read_parquet(path).index

    assert (read.tolist(), read.names) == (index.tolist(), index.names)


def test_file_without_any_note_has_a_plain_index(path):
    """A file of polars gives all its columns and a RangeIndex."""
    pl.DataFrame({"a": [1, None], "b": [["x"], []]}).write_parquet(path)
    read = read_parquet(path)

    assert_same(read.index.to_frame(name="i"), pd.DataFrame({"i": range(2)}))
    assert Column("b", read["b"]).values(slice(None)) == [["x"], []]


def test_columns_of_one_name_are_refused_in_reading(path):
    """A file may hold a name twice, a frame here may not."""
    pq.write_table(pa.Table.from_arrays([pa.array([1])] * 2, names=["a", "a"]), path)

    with pytest.raises(DatasetError, match="several of its columns are named 'a'"):
        read_parquet(path)


def test_table_changed_by_another_program_gives_what_is_there(path):
    """Dropped columns and rows are gone, new columns come last, attrs stay."""
    frame = pd.DataFrame({"a": [1, 2], 3: ["x", "y"], "c": objects({}, [])})
    frame.attrs = {"k": 1}
    to_parquet(frame, path)
    table = pq.read_table(path)
    table = table.drop_columns(["a"]).append_column("new", pa.array([1.5, 2.5]))[1:]
    pq.write_table(table, path)

    expected = pd.DataFrame({3: ["y"], "c": objects([]), "new": arrow(pa.float64(), 2.5)})
    expected.attrs = {"k": 1}
    assert_same(read_parquet(path), expected)


def test_columns_and_note_that_do_not_fit_are_an_error(path):
    """A column that was overwritten with another type is named a misfit, not guessed."""
    to_parquet(pd.DataFrame({"a": objects({}, [])}), path)
    table = pq.read_table(path)
    field = table.schema.field("a")
    torn = pa.table(
        [pa.array(["{", "}"])],
        schema=pa.schema([field.with_type(pa.string())], table.schema.metadata),
    )
    pq.write_table(torn, path)

    with pytest.raises(DatasetError, match="its columns are not what it says of them"):
        read_parquet(path)


def test_file_of_a_newer_evalframe_says_so(path):
    """An unknown format is not read by guessing."""
    table = pa.table({"a": [1]}).replace_schema_metadata({"evalframe": '{"format": 99}'})
    pq.write_table(table, path)

    with pytest.raises(DatasetError, match="A newer evalframe wrote it"):
        read_parquet(path)


def test_many_rows_are_written_in_groups_and_come_back(path):
    """Row groups do not show: values, JSON text and categories run over them."""
    rows = 200_000
    frame = pd.DataFrame({"n": np.arange(rows), "c": pd.Categorical(np.arange(rows) % 7)})
    frame["o"] = objects(*[{"k": i} if i % 5 else i for i in range(rows)])
    read = written(frame, path)

    assert pq.ParquetFile(path).metadata.num_row_groups == 2
    assert_same(read, frame)


ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(max_size=5),
    st.dates(),
    st.timedeltas(),
    st.decimals(allow_nan=False),
    st.uuids(),
)
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner),
        st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=3), inner, max_size=3
        ),
    ),
    max_leaves=6,
)
LABELS = st.one_of(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), st.integers())


def strict(value):
    """The value with its types spelt out, so that 1, 1.0 and True differ."""
    if isinstance(value, dict):
        return {key: strict(item) for key, item in value.items()}, list(value)
    if isinstance(value, list | tuple):
        return type(value), [strict(item) for item in value]
    return type(value), value


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_frame_comes_back(tmp_path, data):
    """Whatever plain values, labels and typed columns a frame holds: write, read, equal."""
    rows = data.draw(st.integers(0, 6), label="rows")
    labels = data.draw(st.lists(LABELS, unique=True, max_size=5), label="labels")
    typed = data.draw(st.lists(st.sampled_from(sorted(COLUMNS)), max_size=3), label="typed")
    columns = [objects(*data.draw(st.lists(VALUES, min_size=rows, max_size=rows))) for _ in labels]
    columns += [COLUMNS[name].take(np.arange(rows) % 3).reset_index(drop=True) for name in typed]
    names = [*labels, *[("typed", position) for position in range(len(typed))]]
    index = data.draw(
        st.lists(VALUES.filter(_hashable), min_size=rows, max_size=rows), label="index"
    )
    frame = pd.DataFrame(dict(enumerate(columns)), index=pd.RangeIndex(rows))
    frame.columns = pd.Index(objects(*names).array, dtype=object, tupleize_cols=False)
    frame.index = pd.Index(objects(*index).array, dtype=object, tupleize_cols=False)

    read = written(frame, tmp_path / "any.parquet")

    assert [strict(label) for label in read.columns] == [strict(name) for name in names]
    assert [strict(label) for label in read.index] == [strict(label) for label in frame.index]
    for position in range(len(labels)):
        cells = zip(read.iloc[:, position], frame.iloc[:, position], strict=True)
        assert all(strict(after) == strict(before) for after, before in cells)
    assert_same(read.iloc[:, len(labels) :], frame.iloc[:, len(labels) :])


def _hashable(value):
    try:
        hash(value)
    except TypeError:
        return False
    return True
