"""The contenders of our own: each takes the frame and gives it back with the result columns.

plain_loop            the yardstick row by row: a loop that calls the three functions
hand_written_pyarrow  the yardstick vectorized: exact match, year and length in pyarrow.compute
evalframe_rows        what plain_loop does, by run_experiment
evalframe_vectorized  what hand_written_pyarrow does, by run_experiment

The yardsticks neither catch errors nor look at what a function returned; they do build every
column that evalframe builds, with its types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from workload import SHORT, YEAR, exact, mentioned_year, short, token_f1

if TYPE_CHECKING:
    from collections.abc import Callable

Arrow: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"
Columns: TypeAlias = "tuple[Arrow | None, Arrow | None, Arrow | None]"
"""Label, score and explanation."""
Contender: TypeAlias = "Callable[[pd.DataFrame], pd.DataFrame]"

_TEXT = pa.large_string()
_FIRST_YEAR = f"(?P<year>{YEAR})"


def plain_loop(frame: pd.DataFrame) -> pd.DataFrame:
    """Call the three functions for each row."""
    exact_labels: list[str] = []
    exact_scores: list[float] = []
    f1_scores: list[float] = []
    year_labels: list[str] = []
    year_explanations: list[str] = []
    for answer, truth in zip(frame["answer"].tolist(), frame["truth"].tolist(), strict=True):
        same = exact(answer, truth)
        exact_labels.append("True" if same else "False")
        exact_scores.append(1.0 if same else 0.0)
        f1_scores.append(token_f1(answer, truth))
        label, explanation = mentioned_year(answer)
        year_labels.append(label)
        year_explanations.append(explanation)
    return with_results(
        frame,
        exact=(pa.array(exact_labels, _TEXT), pa.array(exact_scores, pa.float64()), None),
        token_f1=(None, pa.array(f1_scores, pa.float64()), None),
        mentioned_year=(pa.array(year_labels, _TEXT), None, pa.array(year_explanations, _TEXT)),
    )


def plain_loop_of_vectorized(frame: pd.DataFrame) -> pd.DataFrame:
    """Give what the vectorized pair must give, from the row functions; never timed."""
    answers, truths = frame["answer"].tolist(), frame["truth"].tolist()
    same = [exact(answer, truth) for answer, truth in zip(answers, truths, strict=True)]
    years = [mentioned_year(answer) for answer in answers]
    brief = [short(answer) for answer in answers]
    return with_results(
        frame,
        exact=(pa.array(map(str, same), _TEXT), pa.array(map(float, same), pa.float64()), None),
        mentioned_year=(
            pa.array([label for label, _ in years], _TEXT),
            None,
            pa.array([explanation for _, explanation in years], _TEXT),
        ),
        short=(pa.array(map(str, brief), _TEXT), pa.array(map(float, brief), pa.float64()), None),
    )


def hand_written_pyarrow(frame: pd.DataFrame) -> pd.DataFrame:
    """Compute exact match, year and length column by column."""
    answer, truth = pa.array(frame["answer"]), pa.array(frame["truth"])
    year_label, year_explanation = _years(answer)
    return with_results(
        frame,
        exact=passed_columns(pc.equal(answer, truth)),
        mentioned_year=(year_label, None, year_explanation),
        short=passed_columns(pc.less(pc.utf8_length(answer), SHORT)),
    )


def evalframe_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Run the same three functions as the plain loop, row by row."""
    import evalframe as ef  # the yardsticks run without it

    return ef.run_experiment(
        frame,
        evaluators=[
            ef.evaluator(exact),
            ef.evaluator(token_f1),
            ef.evaluator(mentioned_year),
        ],
        input="question",
        output="answer",
        dataset_output="truth",
        progress=False,
    )


def evalframe_vectorized(frame: pd.DataFrame) -> pd.DataFrame:
    """Run vectorized evaluators that compute what the hand-written version computes."""
    import evalframe as ef  # the yardsticks run without it

    @ef.evaluator(vectorized=True, name="exact")
    def same(output: pd.Series, dataset_output: pd.Series) -> pd.Series:
        return output == dataset_output

    @ef.evaluator(vectorized=True, name="mentioned_year")
    def year(output: pd.Series) -> tuple[Arrow, Arrow]:
        return _years(pa.array(output))

    @ef.evaluator(vectorized=True, name="short")
    def brief(output: pd.Series) -> pd.Series:
        return output.str.len() < SHORT

    return ef.run_experiment(
        frame,
        evaluators=[same, year, brief],
        input="question",
        output="answer",
        dataset_output="truth",
        progress=False,
    )


CONTENDERS: dict[str, Contender] = {
    "plain loop": plain_loop,
    "evalframe row by row": evalframe_rows,
    "hand-written pyarrow": hand_written_pyarrow,
    "evalframe vectorized": evalframe_vectorized,
}
REFERENCES: dict[str, Contender] = {
    "plain loop": plain_loop,
    "evalframe row by row": plain_loop,
    "hand-written pyarrow": plain_loop_of_vectorized,
    "evalframe vectorized": plain_loop_of_vectorized,
}


def passed_columns(passed: Arrow) -> Columns:
    """Give label and score of bools."""
    label = pc.if_else(passed, pa.scalar("True", _TEXT), pa.scalar("False", _TEXT))
    return label, pc.cast(passed, pa.float64()), None


def _years(answer: Arrow) -> tuple[Arrow, Arrow]:
    """Give the label and the explanation of `mentioned_year`."""
    year = pc.struct_field(pc.extract_regex(answer, _FIRST_YEAR), [0])
    label = pc.if_else(pc.is_valid(year), pa.scalar("dated", _TEXT), pa.scalar("undated", _TEXT))
    mention = pc.binary_join_element_wise(pa.scalar("mentions ", _TEXT), year, pa.scalar("", _TEXT))
    return label, pc.coalesce(mention, pa.scalar("no year in it", _TEXT))


def with_results(frame: pd.DataFrame, **results: Columns) -> pd.DataFrame:
    """Add the five columns of each evaluator, as evalframe does."""
    nothing = pa.nulls(len(frame), _TEXT)
    added: dict[str, object] = {}
    for name, (label, score, explanation) in results.items():
        prefix = f"eval.{name}"
        scores = pa.nulls(len(frame), pa.float64()) if score is None else score
        added[f"{prefix}.label"] = _text(nothing if label is None else label)
        added[f"{prefix}.score"] = pd.arrays.ArrowExtensionArray(scores)
        added[f"{prefix}.explanation"] = _text(nothing if explanation is None else explanation)
        added[f"{prefix}.metadata"] = _text(nothing)
        added[f"{prefix}.error"] = _text(nothing)
    return pd.concat([frame, pd.DataFrame(added, index=frame.index, copy=False)], axis=1)


def _text(column: Arrow) -> pd.api.extensions.ExtensionArray:
    return pd.arrays.ArrowStringArray(column)
