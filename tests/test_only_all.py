"""`only="all"` that is cut short: what it did not come to stays as it was."""

import warnings

import pandas as pd
import pyarrow as pa
import pytest

import evalframe as ef
from evalframe.core.run_info import remembered
from evalframe.testing import label, reply

NO_TIME = 1e-9
BUDGET = "skipped: budget"


def answer(word):
    """A server's answers, which say when they were given."""

    def given(request):
        if "response_format" in request.body:
            return label(word)
        return reply(f"{word} {request.prompt}")

    return given


def model_of(server):
    """A model behind the server."""
    return ef.Model("local/m", base_url=server.base_url, max_retries=0)


def judge_of(server, prompt="{{ item.output }}"):
    """A judge that asks the server about the output."""
    return ef.LLMJudge(
        "j", model=model_of(server), prompt=prompt, choices=["old", "new"], explanation=False
    )


def listed(frame, column):
    """A column as plain values, None where null."""
    return pa.array(frame[column], from_pandas=True).to_pylist()


def results(frame):
    """The result columns but for times."""
    names = ["output", "task.error"] if "task.error" in frame else []
    names += [c for c in frame if c.startswith("eval.") and not c.endswith(".latency_s")]
    return frame[names]


def calls(frame, who="j"):
    """How many calls the results have cost."""
    return remembered(frame.attrs).usage[who]["calls"]


def six(server, **options):
    """Six rows that an old judge has judged."""
    rows = pd.DataFrame({"output": [f"text {n}" for n in range(6)]})
    return ef.run_experiment(rows, evaluators=[judge_of(server)], **options)


@pytest.mark.parametrize("details", [False, True], ids=["plain", "details"])
def test_verdicts_that_the_budget_did_not_reach_stay(serve, details):
    """Two are new, four are those of before, to the bit; usage adds up what both have cost."""
    old = six(serve(answer("old")), details=details)
    server = serve(answer("new"))

    with pytest.warns(UserWarning, match=r"4 cells stayed as before.*only='all'"):
        part = ef.run_experiment(old, evaluators=[judge_of(server)], only="all", max_requests=2)

    labels = listed(part, "eval.j.label")
    assert sorted(labels) == ["new"] * 2 + ["old"] * 4
    assert listed(part, "eval.j.error") == [None] * 6
    stayed = [n for n, word in enumerate(labels) if word == "old"]
    pd.testing.assert_frame_equal(results(part).iloc[stayed], results(old).iloc[stayed])
    assert calls(part) == 8


def test_all_that_is_not_cut_short_begins_its_usage_again(serve):
    """Nothing of before is left that has cost something."""
    old = six(serve(answer("old")))

    whole = ef.run_experiment(old, evaluators=[judge_of(serve(answer("new")))], only="all")

    assert listed(whole, "eval.j.label") == ["new"] * 6
    assert calls(whole) == 6


def test_the_same_call_again_asks_all_again(serve):
    """It does not go on from where it was cut short."""
    server = serve(answer("new"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        part = ef.run_experiment(
            six(serve(answer("old"))), evaluators=[judge_of(server)], only="all", max_requests=2
        )
    server.reset()

    whole = ef.run_experiment(part, evaluators=[judge_of(server)], only="all")

    assert server.calls == 6
    assert listed(whole, "eval.j.label") == ["new"] * 6


def with_task(server):
    """A task that asks a model, with a judge and two plain evaluators of each lane."""

    @ef.evaluator(vectorized=True)
    def word(output):
        return output.str[:3]

    def size(output):
        return len(output) / 100

    task = ef.ChatTask(model_of(server), "{{ item.input }}")
    return {"task": task, "evaluators": [judge_of(server), size, word]}


@pytest.mark.parametrize(
    "limit",
    [
        pytest.param({"max_requests": 1}, id="one-request"),
        pytest.param({"max_requests": 3}, id="three-requests"),
        pytest.param({"max_requests": 7}, id="seven-requests"),
        pytest.param({"deadline": NO_TIME}, id="deadline"),
    ],
)
def test_outputs_that_were_not_reached_stay_with_their_cells(serve, limit):
    """A row is all of before, or its output is new and no cell is of the old one."""
    rows = pd.DataFrame({"input": [f"text {n}" for n in range(5)]})
    old = ef.run_experiment(rows, **with_task(serve(answer("old"))), details=True)
    server = serve(answer("new"))

    with pytest.warns(UserWarning, match="task outputs? stayed as before"):
        part = ef.run_experiment(
            old, **with_task(server), only="all", concurrency=1, details=True, **limit
        )

    outputs = listed(part, "output")
    stayed = [n for n, text in enumerate(outputs) if text.startswith("old")]
    made = [n for n, text in enumerate(outputs) if text.startswith("new")]
    assert len(made) + len(stayed) == 5
    assert stayed
    pd.testing.assert_frame_equal(results(part).iloc[stayed], results(old).iloc[stayed])
    judged = listed(part, "eval.j.label")
    assert {judged[n] for n in made} <= {"new", None}
    words = listed(part, "eval.word.label")
    assert {words[n] for n in made} <= {"new"}
    assert all((judged[n] is None) == (listed(part, "eval.j.error")[n] == BUDGET) for n in made)


def test_ctrl_c_keeps_outputs_and_verdicts(serve):
    """What the run had not come to is on `.partial` as before."""
    rows = pd.DataFrame({"input": [1, 2, 3]})

    def fine(input):
        return f"old {input}"

    old = ef.run_experiment(rows, fine, {"size": lambda output: len(output) / 10})

    def stops(input):
        if input == 2:
            raise KeyboardInterrupt
        return f"newer {input}"

    async def one_by_one(input):
        return stops(input)

    with pytest.raises(KeyboardInterrupt) as caught:
        ef.run_experiment(
            old,
            one_by_one,
            {"size": lambda output: len(output) / 10},
            only="all",
            concurrency=1,
        )

    part = caught.value.partial
    assert listed(part, "output")[1:] == ["old 2", "old 3"]
    assert listed(part, "eval.size.score")[1:] == [0.5, 0.5]
    assert listed(part, "task.error") == [None] * 3


def test_outputs_of_another_type_go_with_their_cells():
    """They cannot stand in one column with those that the task declares now."""
    rows = pd.DataFrame({"input": [1, 2]})
    old = ef.run_experiment(rows, lambda input: input, {"even": lambda output: output % 2 == 0})

    @ef.task(output=str)
    def text(input):
        return str(input)

    with pytest.warns(UserWarning, match="2 task outputs"):
        part = ef.run_experiment(
            old, text, {"even": lambda output: True}, only="all", deadline=NO_TIME
        )

    assert listed(part, "output") == [None, None]
    assert listed(part, "eval.even.error") == ["skipped: deadline"] * 2


@pytest.mark.parametrize("only", ["missing", "all"])
def test_what_outputs_that_stay_have_cost_is_kept_where_nothing_more_is_spent(serve, only):
    """The time was over before the first request; the outputs of before are still there."""
    rows = pd.DataFrame({"input": ["a", "b"]})
    old = ef.run_experiment(rows, **with_task(serve(answer("old"))))
    more = pd.concat([old, pd.DataFrame({"input": ["c"]})], ignore_index=True)
    more.attrs = old.attrs

    with pytest.warns(UserWarning, match="the deadline= passed"):
        part = ef.run_experiment(
            more, **with_task(serve(answer("new"))), only=only, deadline=NO_TIME
        )

    assert listed(part, "output") == ["old a", "old b", None]
    assert remembered(part.attrs).usage == remembered(old.attrs).usage
