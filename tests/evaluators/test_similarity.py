"""SemanticSimilarity: which rows are compared, and with what."""

import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import evalframe as ef

ANGLES = {"east": 0.0, "north": 90.0, "west": 180.0, "northeast": 45.0}
EMPTY, NO_REFERENCE = "skipped: empty text", "skipped: no reference"


def compass(texts):
    """Directions of length 7."""
    angles = np.radians([ANGLES[text] for text in texts])
    return 7 * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def column(values):
    """Python objects, of which pandas infers nothing."""
    cells = np.empty(len(values), dtype=object)
    cells[:] = values
    return pd.Series(cells, dtype=object)


def judged(outputs, references, embedder=compass):
    """Per row (score, cosine), or the error."""
    frame = pd.DataFrame({"output": column(outputs), "dataset_output": column(references)})
    scored = ef.run_experiment(frame, evaluators=[ef.SemanticSimilarity(embedder)])
    cells = scored.evals["semantic_similarity"][["score", "cosine", "error", "label"]]
    rows = cells.to_numpy(dtype=object)
    assert all(pd.isna(label) for *_, label in rows)
    return [(score, angle) if pd.isna(why) else why for score, angle, why, _ in rows]


@pytest.mark.parametrize(
    ("output", "reference", "expected"),
    [
        pytest.param("east", "east", (1.0, 1.0), id="same"),
        pytest.param("east", "northeast", (math.sqrt(0.5), math.sqrt(0.5)), id="near"),
        pytest.param("east", "west", (0.0, -1.0), id="opposite-is-clipped"),
        pytest.param("east", ["west", "northeast"], (math.sqrt(0.5),) * 2, id="best-of-a-list"),
        pytest.param("east", ["", "east"], (1.0, 1.0), id="blank-in-a-list-is-left-out"),
        pytest.param("east", [None, "east"], (1.0, 1.0), id="null-in-a-list-is-left-out"),
        pytest.param("east", ("west",), (0.0, -1.0), id="tuple"),
    ],
)
def test_score_is_the_clipped_cosine(output, reference, expected):
    """Of the best reference."""
    ((score, cosine),) = judged([output], [reference])

    assert (score, cosine) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize(
    ("output", "reference", "expected"),
    [
        pytest.param("east", None, NO_REFERENCE, id="no-reference"),
        pytest.param(None, None, NO_REFERENCE, id="nothing"),
        pytest.param("east", [], NO_REFERENCE, id="empty-list"),
        pytest.param("east", [None], NO_REFERENCE, id="list-of-nulls"),
        pytest.param("east", [None, ""], EMPTY, id="null-and-blank"),
        pytest.param("", "east", EMPTY, id="empty-output"),
        pytest.param("\u3000\n", "east", EMPTY, id="blank-output"),
        pytest.param("east", [None, None], NO_REFERENCE, id="list-of-nulls"),
        pytest.param(None, [None], NO_REFERENCE, id="no-output-and-list-of-nulls"),
        pytest.param("east", [None, ""], EMPTY, id="list-of-null-and-blank"),
        pytest.param("east", "", EMPTY, id="empty-reference"),
        pytest.param("east", ["", " "], EMPTY, id="list-of-blanks"),
        pytest.param(None, "", EMPTY, id="no-output-and-empty-reference"),
    ],
)
def test_row_with_nothing_to_compare_is_skipped(output, reference, expected):
    """Nothing is embedded for it; the rows beside it have their scores."""
    found = judged(["east", output, "east"], ["east", reference, "east"])

    assert found == [(1.0, 1.0), expected, (1.0, 1.0)]


def test_no_output_against_a_reference_scores_zero():
    """There is no cosine of it."""
    (found,) = judged([None], ["east"])

    assert found[0] == 0.0
    assert pd.isna(found[1])


@pytest.mark.parametrize(
    ("output", "reference", "message"),
    [
        pytest.param(3, "east", "output is 3 (int), not text", id="number"),
        pytest.param({"a": 1}, "east", "output is {'a': 1} (dict), not text", id="dict"),
        pytest.param(b"east", "east", "output is b'east' (bytes), not text", id="bytes"),
        pytest.param("east", True, "dataset_output is True (bool), not text", id="bool"),
        pytest.param("east", ["east", 3], "dataset_output is 3 (int), not", id="number-in-a-list"),
        pytest.param("east", [["east"]], "dataset_output is ['east'] (list), n", id="nested"),
        pytest.param("east", Decimal(1), "dataset_output is Decimal('1')", id="decimal"),
    ],
)
def test_value_that_is_no_text_fails_for_itself(output, reference, message):
    """Never compared, never an exception."""
    found = judged(["east", output], ["east", reference])

    assert found[0] == (1.0, 1.0)
    assert found[1].startswith(f"invalid_result: {message}")


def test_column_of_numbers_is_refused_before_the_run():
    """With what to do."""
    frame = pd.DataFrame({"output": [1, 2], "dataset_output": ["a", "b"]})

    with pytest.raises(ef.ExperimentError, match="needs text, but output is int64"):
        ef.run_experiment(frame, evaluators=[ef.SemanticSimilarity(compass)])


def test_lone_surrogate_is_embedded_as_the_replacement_character():
    """Text that no request could hold."""
    seen = []

    def embed(texts):
        seen.extend(texts)
        return [[1.0]] * len(texts)

    with pytest.warns(UserWarning, match="surrogate"):
        judged(["a\ud800"], ["b"], embed)

    assert sorted(seen) == ["a\ufffd", "b"]


finite = st.floats(allow_nan=False, allow_infinity=False)
vectors = arrays.arrays(np.float64, (2, 3), elements=finite)
# What float32 and a 1e-9 rounding at the ends leave of a cosine.
CLOSE = 1e-6


def cosine(a, b):
    """By its definition, with numbers brought near 1 first: squares of floats may overflow."""
    a, b = ([float(x) / (max(map(abs, map(float, v))) or 1.0) for x in v] for v in (a, b))
    squares = [math.fsum(x * x for x in v) for v in (a, b)]
    if not all(squares):
        return None
    return math.fsum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(squares[0] * squares[1])


@given(vectors)
def test_every_pair_of_vectors_has_a_score_in_the_range(pair):
    """Or is skipped, if one is all zeros; huge and tiny numbers included."""
    (found,) = judged(["a"], ["b"], lambda texts: [pair["ab".index(text)] for text in texts])

    expected = cosine(*pair)
    if expected is None:
        assert found == "skipped: zero vector: it has no direction to compare"
    else:
        assert 0.0 <= found[0] <= 1.0
        assert found[1] == pytest.approx(expected, abs=CLOSE)
        assert found[0] == max(found[1], 0.0)


@given(arrays.arrays(np.float64, 5, elements=st.floats(-1e3, 1e3)).filter(np.any))
def test_equal_texts_score_exactly_one(vector):
    """So that threshold=1.0 means equal."""
    assert judged(["a"], ["a"], lambda texts: [vector] * len(texts)) == [(1.0, 1.0)]
