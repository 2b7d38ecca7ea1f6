"""Dataset: every source, the roles, and what can be done with it; the source never changes."""

import pickle
import warnings

import datasets
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from evalframe.core.errors import ColumnNotFoundError, DatasetError, UnsupportedValueError
from evalframe.core.mapping import RoleMapping
from evalframe.data import Dataset

TIMES = pd.DatetimeIndex(["2024-05-01", "2024-05-03"], tz="Europe/Berlin")
ROWS = [
    {"text": "a", "number": 1, "tags": ["x"], "info": {"k": 1, "t": "u"}},
    {"text": "b", "number": None, "tags": [], "info": {"k": 2, "t": None}},
]


class Exporter:
    """Anything that exports an Arrow stream, and nothing else."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


class Distributed:
    """A frame that has to be computed first."""

    def compute(self):
        return pd.DataFrame(ROWS)


class BatchExporter:
    """Anything that exports a single Arrow batch."""

    def __init__(self, batch):
        self.batch = batch

    def __arrow_c_array__(self, requested_schema=None):
        return self.batch.__arrow_c_array__(requested_schema)


def duckdb_relation(table):
    """The table as DuckDB has it."""
    return duckdb.from_arrow(table)


TABLE = pa.Table.from_pylist(ROWS)
SOURCES = {
    "pandas": lambda: TABLE.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas-objects": lambda: pd.DataFrame(ROWS).astype({"number": "Int64"}),
    "arrow-table": lambda: TABLE,
    "arrow-batch": lambda: TABLE.to_batches()[0],
    "arrow-reader": TABLE.to_reader,
    "arrow-stream": lambda: Exporter(TABLE),
    "arrow-array": lambda: BatchExporter(TABLE.to_batches()[0]),
    "polars": lambda: pl.DataFrame(ROWS),
    "polars-stream": lambda: Exporter(pl.DataFrame(ROWS)),
    "duckdb": lambda: duckdb_relation(TABLE),
    "hugging-face": lambda: datasets.Dataset.from_list(ROWS),
    "list-of-dicts": lambda: ROWS,
    "tuple-of-dicts": lambda: tuple(ROWS),
    "dataset": lambda: Dataset(ROWS),
    "own-arrow": lambda: Dataset(ROWS).to_arrow(),
}


def rows_of(dataset):
    """The dataset as dicts."""
    columns = [dataset.column(label).values(slice(None)) for label in dataset.columns]
    return [dict(zip(dataset.columns, cells, strict=True)) for cells in zip(*columns, strict=True)]


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_same_rows(source):
    """Evaluators get the same plain values, wherever the data comes from."""
    assert rows_of(Dataset(SOURCES[source]())) == ROWS


@pytest.mark.parametrize("source", set(SOURCES) - {"pandas", "pandas-objects"})
def test_every_source_gives_an_arrow_backed_frame(source):
    """Text is string, everything else has an Arrow type, whatever the source's own types."""
    frame = Dataset(SOURCES[source]()).to_pandas()

    assert str(frame["text"].dtype) == "string"
    assert all(isinstance(frame[name].dtype, pd.ArrowDtype) for name in ("number", "tags", "info"))


@pytest.mark.parametrize("source", SOURCES)
def test_head_of_nothing_keeps_the_columns(source):
    """No rows are rows too: the columns stay."""
    dataset = Dataset(SOURCES[source]()).head(0)

    assert (len(dataset), dataset.columns) == (0, list(ROWS[0]))
    assert dataset.to_arrow().num_rows == 0
    assert Dataset(dataset.to_arrow()).to_pandas().shape == (0, 4)


def test_hugging_face_rows_are_those_of_its_filter():
    """A filtered or reordered Hugging Face dataset gives its own rows, in its own order."""
    source = datasets.Dataset.from_list([{"n": n} for n in range(5)]).select([4, 0, 2])

    assert rows_of(Dataset(source)) == [{"n": 4}, {"n": 0}, {"n": 2}]


@pytest.mark.parametrize(
    ("column", "dtype"),
    [
        pytest.param(pl.Series(["u", "v"], dtype=pl.Categorical), "string", id="categorical"),
        pytest.param(pl.Series(["u", "v"], dtype=pl.Enum(["u", "v"])), "string", id="enum"),
        pytest.param(
            pl.Series([["u"], []], dtype=pl.List(pl.Categorical)),
            "large_list<item: large_string>[pyarrow]",
            id="categories-in-lists",
        ),
        pytest.param(pl.Series([b"u", None]), "large_binary[pyarrow]", id="bytes"),
        pytest.param(pl.Series([None, None]), "object", id="null"),
    ],
)
@pytest.mark.parametrize("wrap", [pl.DataFrame, lambda columns: Exporter(pl.DataFrame(columns))])
def test_polars_types_that_pandas_lacks_are_settled(wrap, column, dtype):
    """Views, dictionaries and nulls of other libraries become what any reader can open."""
    dataset = Dataset(wrap({"x": column}))

    assert str(dataset.to_pandas()["x"].dtype) == dtype
    assert dataset.column("x").values(slice(None)) == column.to_list()


@pytest.mark.parametrize(
    ("array", "values"),
    [
        pytest.param(
            pa.ExtensionArray.from_storage(pa.opaque(pa.string(), "t", "v"), pa.array(["a"])),
            ["a"],
            id="extension",
        ),
        pytest.param(pa.array([["a"]], pa.list_view(pa.string_view())), [["a"]], id="list-view"),
        pytest.param(pa.array([["a"]], pa.list_(pa.string_view(), 1)), [["a"]], id="fixed-list"),
        pytest.param(pa.array([b"a"], pa.binary_view()), [b"a"], id="binary-view"),
        pytest.param(
            pa.array([{"a": 1}], pa.map_(pa.string_view(), pa.int8())), [{"a": 1}], id="map"
        ),
        pytest.param(pa.array(["a", None]).dictionary_encode(), ["a", None], id="dictionary"),
    ],
)
def test_arrow_types_that_pandas_lacks_are_settled(array, values):
    """Every Arrow type has values, and a frame that can be written again."""
    dataset = Dataset(pa.table({"x": array}))

    assert dataset.column("x").values(slice(None)) == values
    assert dataset.filter(lambda x: x is not None).to_arrow().num_rows == 1


@pytest.mark.parametrize(
    ("source", "message"),
    [
        pytest.param(
            datasets.DatasetDict(train=datasets.Dataset.from_list(ROWS)),
            "pick a split, .*'train'",
            id="splits",
        ),
        pytest.param(
            datasets.Dataset.from_list(ROWS).to_iterable_dataset(),
            r"stream: pass list\(data\.take",
            id="stream",
        ),
        pytest.param(pl.LazyFrame(ROWS), r"pass data\.collect\(\)", id="lazy"),
        pytest.param(pl.Series([1]), "a single column: name it", id="polars-series"),
        pytest.param(pd.Series([1]), "a single column: name it", id="pandas-series"),
        pytest.param(pa.chunked_array([[1]]), "a single column: name it", id="arrow-column"),
        pytest.param(
            {"input": "x"}, r"A dict may be one row or some columns: pass \[data\]", id="dict"
        ),
        pytest.param(
            (row for row in ROWS), r"A generator can be read only once: pass list", id="generator"
        ),
        pytest.param(
            Exporter(pa.chunked_array([[1]])), "gave no Arrow table", id="stream-of-numbers"
        ),
        pytest.param(np.zeros((2, 2)), "A ndarray is no table", id="array"),
        pytest.param(None, "A NoneType is no table", id="none"),
        pytest.param(
            Distributed(), r"is not read as it is: pass data\.compute\(\)", id="distributed"
        ),
        pytest.param(7, "An int is no table", id="number"),
    ],
)
def test_source_that_is_no_table_says_what_to_pass(source, message):
    """What is not read is refused with the way out."""
    with pytest.raises(DatasetError, match=f"{message}.*Dataset takes a pandas"):
        Dataset(source)


def test_columns_of_the_same_name_are_refused():
    """Which of them a role means cannot be known."""
    with pytest.raises(DatasetError, match=r"same name: 'a'\. Give each its own, df\.columns = "):
        Dataset(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(DatasetError, match="same name: 'a'"):
        Dataset(pa.table([[1], [2]], names=["a", "a"]))


def test_column_multiindex_is_refused():
    """The message says how to flatten it."""
    frame = pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")]))

    with pytest.raises(DatasetError, match=r"MultiIndex\. Flatten it first: df\.columns = "):
        Dataset(frame)


@pytest.fixture
def frame():
    """A frame as users have them: mixed dtypes, a text index with a duplicate, attrs."""
    frame = pd.DataFrame(
        {
            "question": ["a", "b", None],
            "answer": pd.Categorical(["x", "y", "x"]),
            "n": [1.5, np.nan, 2.0],
            "docs": [["d"], None, []],
        },
        index=pd.Index(["r", "s", "r"], name="id"),
    )
    frame.attrs["note"] = "kept"
    return frame


def test_frame_is_not_copied_and_not_changed(frame):
    """A pandas source keeps its memory; reading it leaves no trace."""
    before = frame.copy(deep=True)
    dataset = Dataset(frame, input="question")
    dataset.to_pandas()
    dataset.to_arrow()
    dataset.filter(lambda row: row["n"] is not None)

    assert np.shares_memory(dataset.column("n").series.to_numpy(), frame["n"].to_numpy())
    pd.testing.assert_frame_equal(frame, before)
    assert frame.attrs == {"note": "kept"}


def test_later_changes_of_the_frame_do_not_reach_the_dataset(frame):
    """A dataset is what the frame was."""
    dataset = Dataset(frame)
    frame.loc["s", "question"] = "changed"
    frame["more"] = 1

    assert dataset.column("question").values(slice(None)) == ["a", "b", None]
    assert dataset.columns == ["question", "answer", "n", "docs"]


def test_to_pandas_keeps_index_attrs_and_order(frame):
    """The frame has Arrow dtypes, and is new every time."""
    dataset = Dataset(frame)
    result = dataset.to_pandas()

    pd.testing.assert_index_equal(result.index, frame.index)
    assert result.attrs == {"note": "kept"}
    assert [str(dtype) for dtype in result.dtypes] == [
        "string",
        "category",
        "double[pyarrow]",
        "list<item: large_string>[pyarrow]",
    ]
    result.loc["s", "n"] = 9.0
    assert dataset.to_pandas()["n"].isna().tolist() == [False, True, False]


@pytest.mark.parametrize(
    "index",
    [
        pytest.param(pd.Index(["a", "a"], name="question"), id="named-like-a-column"),
        pytest.param(pd.Index([0.5, 2.0]), id="float"),
        pytest.param(pd.RangeIndex(2, 6, 2), id="range-with-steps"),
        pytest.param(pd.Index([0, 1], name="id"), id="named-default"),
        pytest.param(TIMES, id="times"),
        pytest.param(
            pd.MultiIndex.from_tuples([(1, "a"), (1, "b")], names=[None, "k"]), id="multi"
        ),
        pytest.param(
            pd.MultiIndex.from_tuples([(1, "a"), (1, "b")], names=["k", "k"]), id="twice-named"
        ),
        pytest.param(pd.CategoricalIndex(["u", "v"]), id="categories"),
    ],
)
def test_arrow_table_gives_the_index_back(index):
    """What pandas and Dataset make of the table the index that was there."""
    frame = pd.DataFrame({"question": ["a", "b"], "m": [{}, {"k": 1}]}, index=index)
    table = Dataset(frame).to_arrow()

    assert table.column_names[:2] == ["question", "m"]
    pd.testing.assert_index_equal(Dataset(table).index, index, exact="equiv")
    pd.testing.assert_index_equal(table.to_pandas().index, index, exact="equiv")
    assert list(table.to_pandas().columns) == ["question", "m"]


def test_default_index_adds_no_column_to_a_table():
    """Rows 0, 1, 2, ... need no labels in a file."""
    assert Dataset(ROWS).to_arrow().column_names == list(ROWS[0])


def test_index_without_an_arrow_form_is_refused():
    """The message says what to do with it."""
    frame = pd.DataFrame({"x": [1, 2]}, index=pd.Index([1, "a"], dtype=object))

    with pytest.raises(DatasetError, match=r"The index has no Arrow form .*reset_index"):
        Dataset(frame).to_arrow()


def test_numbers_as_column_names_survive_a_table():
    """Arrow has text names only; Dataset and pandas make numbers of them again."""
    table = Dataset(pd.DataFrame({0: ["a"], 1: ["b"]})).to_arrow()

    assert table.column_names == ["0", "1"]
    assert Dataset(table).columns == list(table.to_pandas().columns) == [0, 1]


def test_names_that_are_the_same_as_text_are_refused_in_a_table():
    """1 and '1' cannot be two columns of a file."""
    with pytest.raises(DatasetError, match="the same name as text: '1'"):
        Dataset(pd.DataFrame({1: ["a"], "1": ["b"]})).to_arrow()


def test_attrs_survive_a_table_as_far_as_json_keeps_them():
    """What JSON would change or refuse is left out of files, and stays in the frame."""
    frame = pd.DataFrame({"x": [1]})
    frame.attrs = {"evalframe": "{}", "odd": {1: 2}, 3: "x", "set": {1}}
    dataset = Dataset(frame)

    assert dataset.to_pandas().attrs == frame.attrs
    assert Dataset(dataset.to_arrow()).to_pandas().attrs == {"evalframe": "{}"}


def test_json_columns_are_marked_in_a_table():
    """Only a column that Arrow cannot keep is JSON text, and its field says so."""
    table = Dataset([{"a": 1, "m": {"q": 1}}, {"a": 2, "m": {}}]).to_arrow()

    assert [field.metadata for field in table.schema] == [None, {b"evalframe": b"json"}]
    assert table.schema.field("m").type == pa.large_string()


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(pa.table, id="arrow"),
        pytest.param(pl.DataFrame, id="polars"),
        pytest.param(lambda dataset: duckdb.from_arrow(pa.table(dataset)), id="duckdb"),
    ],
)
def test_dataset_is_an_arrow_stream(read):
    """Any library that reads Arrow streams reads a dataset."""
    assert rows_of(Dataset(read(Dataset(ROWS)))) == ROWS


def test_unstorable_columns_stay_with_one_warning():
    """Nobody reads them: the frame keeps them, one warning names them, a table refuses them."""
    dataset = Dataset([{"ok": 1, "seen": {1}, "thing": object()}])

    with pytest.warns(UserWarning, match=r"Column 'seen', row 0: a set .*Column 'thing'") as caught:
        result = dataset.to_pandas()

    assert len(caught) == 1
    assert result["seen"][0] == {1}
    with pytest.raises(UnsupportedValueError, match="Column 'seen', row 0: a set cannot"):
        dataset.to_arrow()


def test_all_missing_columns_are_named_at_once():
    """One error lists every role whose column is absent, with the nearest names."""
    with pytest.raises(ColumnNotFoundError) as caught:
        Dataset(ROWS, input="Text", output="numbr", metadata=["tags", "inf", "zzz"])

    assert str(caught.value) == (
        "Column 'Text' (role: input) is not in the data. Did you mean 'text'? Pass input='text'. "
        "Column 'numbr' (role: output) is not in the data. Did you mean 'number'? "
        "Pass output='number'. "
        "Column 'inf' (role: metadata) is not in the data. Did you mean 'info'? "
        "Column 'zzz' (role: metadata) is not in the data. "
        "It has: 'text', 'number', 'tags', 'info'."
    )


def test_mapping_holds_the_roles_that_were_given():
    """Roles that were not given are found when something reads them."""
    dataset = Dataset(ROWS, input="text", metadata=["tags", "info"])

    assert dataset.mapping == RoleMapping(input="text", metadata=("tags", "info"))


def test_dataset_of_a_dataset_adds_roles():
    """The roles of both hold, and the frame is shared."""
    dataset = Dataset(Dataset(ROWS, input="text"), input="text", output="number")

    assert dataset.mapping == RoleMapping(input="text", output="number")


def test_dataset_of_a_dataset_does_not_change_roles():
    """A role that was given twice, differently, is an error."""
    with pytest.raises(DatasetError, match="has 'text' as its input, and input='number' was given"):
        Dataset(Dataset(ROWS, input="text"), input="number")


def test_unknown_column_is_named():
    """Asking for a column that is not there gives the nearest name."""
    with pytest.raises(ColumnNotFoundError, match=r"Column 'txt' \(column\).*Did you mean 'text'"):
        Dataset(ROWS).column("txt")


def test_column_is_made_once():
    """What was found out about a column is not found out again."""
    dataset = Dataset(ROWS)

    assert dataset.column("tags") is dataset.column("tags")


def test_dataset_is_frozen():
    """Neither its parts nor anything else can be set or deleted."""
    dataset = Dataset(ROWS)

    with pytest.raises(AttributeError, match="frozen: 'mapping' cannot be set"):
        dataset.mapping = None
    with pytest.raises(AttributeError, match="frozen: 'mapping' cannot be deleted"):
        del dataset.mapping


def test_dataset_pickles():
    """Rows, index, attrs and roles arrive elsewhere."""
    source = Dataset(pd.DataFrame(ROWS, index=["a", "b"]), input="text")
    source.column("tags").check()

    back = pickle.loads(pickle.dumps(source))

    assert (rows_of(back), list(back.index), back.mapping) == (ROWS, ["a", "b"], source.mapping)


def test_types_of_a_frame_are_cast_without_changing_it():
    """Only the named column gets another type, in the dataset alone, index kept."""
    source = pd.DataFrame({"n": ["1", "2"], "t": ["a", "b"]}, index=["x", "y"])
    dataset = Dataset(source, types={"n": int})

    assert dataset.column("n").values(slice(None)) == [1, 2]
    assert source["n"].tolist() == ["1", "2"]
    assert list(dataset.to_pandas().index) == ["x", "y"]


NUMBERS = pd.DataFrame({"n": range(10)}, index=list("abcdefghij"))


@pytest.mark.parametrize(("n", "expected"), [(0, ""), (3, "abc"), (99, "abcdefghij")])
def test_head_is_the_first_rows(n, expected):
    """At most n rows, with their own labels."""
    assert "".join(Dataset(NUMBERS).head(n).index) == expected


def test_head_and_sample_keep_the_roles():
    """Fewer rows have the same roles."""
    dataset = Dataset(NUMBERS, input="n")

    assert dataset.head().mapping == dataset.sample(2).mapping == dataset.mapping
    assert len(dataset.head()) == 5


@pytest.mark.parametrize("n", [-1, 2.0, True, "3"])
@pytest.mark.parametrize("method", ["head", "sample"])
def test_number_of_rows_must_be_one(method, n):
    """Anything but a whole number from 0 on is refused."""
    with pytest.raises(DatasetError, match=rf"{method}\(\) needs a number of rows, 0 or more"):
        getattr(Dataset(NUMBERS), method)(n)


def test_sample_is_repeatable_and_in_order():
    """One seed is one choice, rows keep their order, and a larger sample has the smaller in it."""
    dataset = Dataset(NUMBERS)
    small, large = list(dataset.sample(3, seed=1).index), list(dataset.sample(6, seed=1).index)

    assert small == list(dataset.sample(3, seed=1).index) == sorted(small)
    assert set(small) < set(large)
    assert large != list(dataset.sample(6, seed=2).index)
    assert len(dataset.sample(99)) == 10


@pytest.mark.parametrize(
    "mask",
    [
        pytest.param([True, False, True], id="list"),
        pytest.param(np.array([True, False, True]), id="array"),
        pytest.param(pd.Series([True, False, True]), id="series-on-the-default-index"),
        pytest.param(
            pd.Series([True, False, True], index=["r", "s", "r"]), id="series-on-the-rows-index"
        ),
        pytest.param(pd.array([True, pd.NA, True], dtype="boolean"), id="null-is-not-kept"),
        pytest.param(pa.array([True, None, True]), id="arrow"),
        pytest.param(pl.Series([True, False, True]), id="polars"),
        pytest.param(lambda row: row["question"] != "b", id="row"),
        pytest.param(lambda question: question != "b", id="column"),
        pytest.param(lambda n, docs: n is not None and docs is not None, id="columns"),
        pytest.param(lambda input: np.bool_(input != "b"), id="role"),
        pytest.param(lambda row: None if row["n"] is None else True, id="none-is-not-kept"),
        pytest.param(lambda metadata: metadata["n"] is not None, id="metadata"),
    ],
)
def test_filter_keeps_the_rows_for_which_it_holds(frame, mask):
    """A mask goes by position; a function gets plain values, bound like an evaluator's."""
    kept = Dataset(frame, input="question", metadata=["n", "docs"]).filter(mask)

    assert kept.column("question").values(slice(None)) == ["a", None]
    assert list(kept.index) == ["r", "r"]
    assert kept.mapping == RoleMapping(input="question", metadata=("n", "docs"))


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        pytest.param([True], "got 1 values for 3 rows", id="length"),
        pytest.param([1, 0, 1], "row 0 is 1", id="numbers"),
        pytest.param(["a", "b", "c"], "row 0 is 'a'", id="text"),
        pytest.param("abc", "not str", id="a-text"),
        pytest.param(
            pd.Series([True] * 3, index=[1, 2, 3]), "this Series has another index", id="index"
        ),
        pytest.param(lambda question: question, "row 0 is 'a'", id="function-without-bool"),
        pytest.param(lambda questin, n: True, "Did you mean 'question'", id="misspelt"),
        pytest.param(True, "not bool", id="scalar"),
    ],
)
def test_filter_refuses_what_is_no_condition(frame, mask, message):
    """The error says what was given, and what is needed."""
    with pytest.raises(DatasetError, match=message):
        Dataset(frame).filter(mask)


def test_filter_does_not_hand_out_the_frames_own_values(frame):
    """What a function does to its arguments stays there."""

    def spoil(docs):
        (docs or []).append("spoiled")
        return True

    kept = Dataset(frame).filter(spoil)

    assert kept.column("docs").values(slice(None)) == frame["docs"].tolist() == [["d"], None, []]


def test_filter_of_nothing_calls_nothing():
    """A dataset without rows stays one."""

    def fail(row):
        raise AssertionError

    assert len(Dataset(NUMBERS).head(0).filter(fail)) == 0


def test_repr_counts_and_names():
    """Rows, columns and roles at a glance."""
    dataset = Dataset(ROWS, input="text", metadata=["tags"])

    assert repr(dataset) == (
        "Dataset(2 rows, columns: 'text', 'number', 'tags', 'info'; "
        "input='text', metadata=('tags',))"
    )
    assert repr(Dataset([{"a": 1}])) == "Dataset(1 row, columns: 'a')"
    assert repr(Dataset([])) == "Dataset(0 rows, columns: nothing)"


def test_html_is_escaped():
    """Data and names are shown as they are, and never run."""
    shown = Dataset([{"<i>q": "<script>alert(1)</script>"}], input="<i>q")._repr_html_()

    assert "1 row, 1 column, input: &#x27;&lt;i&gt;q&#x27;" in shown
    assert "&lt;script&gt;" in shown
    assert "<script>" not in shown
    assert "<i>" not in shown


def test_building_a_dataset_warns_of_nothing(frame):
    """Every source that can be read is read in silence."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for make in SOURCES.values():
            Dataset(make()).to_pandas()
        Dataset(frame).to_pandas()
