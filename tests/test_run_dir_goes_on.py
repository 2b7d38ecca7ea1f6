"""What a run_dir says, and what it lets a user do next."""

import warnings

import pandas as pd
import pytest

import evalframe as ef
from evalframe.testing import ChatServer, label

DATA = pd.DataFrame({"output": ["a", "b", "c"]})


def judge(server, prompt="{{ item.output }}", name="j"):
    """A judge that asks the scripted server, at a price."""
    model = ef.Model("local/m", base_url=server.base_url, price={"input": 1.0, "output": 1.0})
    return ef.LLMJudge(name, model=model, prompt=prompt, choices=["yes"], explanation=False)


def first(output):
    """An evaluator."""
    return True


@pytest.fixture
def quiet():
    """What was finished before is no news here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*finished before")
        yield


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param("prompt", "'j' changed since", id="judge-edited"),
        pytest.param("rows", "of 'j' it has other rows", id="other-rows"),
        pytest.param("name", "'k' new in it", id="another-evaluator"),
    ],
)
def test_a_refusal_says_what_differs_and_overwrite_goes_on(tmp_path, change, why):
    """A folder is not lost to whoever edits the one prompt in it."""
    with ChatServer(label("yes")) as server:
        ef.run_experiment(DATA, evaluators=judge(server), run_dir=tmp_path)
        data = DATA.assign(output=["x", "y", "z"]) if change == "rows" else DATA
        given = {"prompt": {"prompt": "Now: {{ item.output }}"}, "name": {"name": "k"}}
        options = {"evaluators": judge(server, **given.get(change, {})), "run_dir": tmp_path}
        for look in (ef.run_experiment, ef.estimate):
            with pytest.raises(ef.RunDirError, match=f"{why}.*overwrite=True"):
                look(data, **options)
        estimated = ef.estimate(data, **options, overwrite=True)["requests"].iloc[-1]
        before = server.calls
        scored = ef.run_experiment(data, **options, overwrite=True)

    assert scored.iloc[:, 1].tolist() == ["yes"] * 3
    assert server.calls - before == estimated


def test_a_refusal_names_a_task_that_was_edited(tmp_path):
    """It is the task's outputs that everything else is made of."""
    data = DATA.rename(columns={"output": "input"})

    def said(input):
        return input

    old, new = (ef.task(version=version)(said) for version in "12")
    ef.run_experiment(data, old, [first], run_dir=tmp_path)

    with pytest.raises(ef.RunDirError, match="the task changed since"):
        ef.run_experiment(data, new, [first], run_dir=tmp_path)


def test_no_rows_are_nothing_to_be_refused(tmp_path):
    """An empty frame has the columns of any other."""
    whole = ef.run_experiment(DATA, evaluators=first, run_dir=tmp_path)
    empty = ef.run_experiment(DATA.head(0), evaluators=first, run_dir=tmp_path)

    assert empty.columns.tolist() == whole.columns.tolist()


@pytest.mark.usefixtures("quiet")
def test_all_is_asked_anew_and_costs_anew(tmp_path):
    """Replies of before, which the folder keeps, would be the same results once more."""
    with ChatServer(label("yes")) as server:
        options = {"evaluators": [judge(server)], "run_dir": tmp_path}
        scored = ef.run_experiment(DATA, **options)
        spent = scored.evals.usage()["cost"].iloc[0]
        estimated = ef.estimate(scored, **options, only="all")["requests"].iloc[-1]
        again = ef.run_experiment(scored, **options, only="all")

        assert server.calls == 6
        assert estimated == 3
        assert again.evals.usage()["cost"].iloc[0] == spent
        assert ef.run_experiment(DATA, **options)["eval.j.label"].tolist() == ["yes"] * 3
        assert server.calls == 6


def test_what_a_limit_left_is_made_by_the_same_call(tmp_path):
    """The folder knows what is there; nobody needs the frame for it."""
    with ChatServer(label("yes")) as server:
        options = {"evaluators": [judge(server)], "run_dir": tmp_path}
        with pytest.warns(UserWarning, match="To go on, make the same call again"):
            ef.run_experiment(DATA, **options, max_requests=1, concurrency=1)
        with pytest.warns(UserWarning, match="1 of 3 cells of 'j'"):
            whole = ef.run_experiment(DATA, **options)

    assert whole["eval.j.label"].tolist() == ["yes"] * 3
    assert server.calls == 3


def test_a_cost_that_nobody_knows_is_no_number(tmp_path):
    """A run that was killed has not said it; what it made is there all the same."""
    with ChatServer(label("yes")) as server:
        options = {"evaluators": [judge(server)], "run_dir": tmp_path}
        ef.run_experiment(DATA, **options)
        record = tmp_path / "run.json"
        text = record.read_text("utf-8")
        assert '"usage": {}' not in text
        begin = text.index('"usage": {')
        record.write_text(text[:begin] + '"usage": {}, "tracebacks": {}}', "utf-8")
        with pytest.warns(UserWarning, match="What 3 cells of 'j' cost is not known"):
            resumed = ef.run_experiment(DATA, **options)

    assert resumed.evals.usage()["cost"].isna().tolist() == [True]
    assert server.calls == 3


@pytest.mark.usefixtures("quiet")
def test_usage_stands_in_the_order_of_the_evaluators(tmp_path):
    """However much of each was finished before."""
    with ChatServer(label("yes")) as server:
        names = ["one", "two"]
        given = [judge(server, name=name) for name in names]
        ef.run_experiment(DATA, evaluators=given, run_dir=tmp_path)
        given[0] = judge(server, "Now: {{ item.output }}", name="one")
        scored = ef.run_experiment(DATA, evaluators=given, run_dir=tmp_path)

    assert scored.evals.usage()["evaluator"].tolist() == names
