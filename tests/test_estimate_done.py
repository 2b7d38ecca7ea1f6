"""What is there already is not estimated: held against what the same run then asks."""

import json
import math
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import evalframe as ef
from evalframe.testing import embeddings, error, label, reply

YES = label("yes", usage={"prompt_tokens": 50, "completion_tokens": 5})
NO_OUTPUT = "reads the task's output, which is not there yet"
# What a run says of results that it has taken over is another test's matter.
pytestmark = pytest.mark.filterwarnings("ignore:.*finished before, and not run again")
FEW = settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])


def model_of(server, **options):
    """A model behind the server."""
    return ef.Model("local/m", **{"base_url": server.base_url, "max_retries": 0, **options})


def judge_of(server, name="j", *, prompt="Is it so? {{ item.output }}", **options):
    """A judge that asks the server about the output."""
    return ef.LLMJudge(
        name,
        model=model_of(server, **options),
        prompt=prompt,
        choices={"yes": 1.0, "no": 0.0},
        explanation=False,
        invalid_retries=0,
    )


def task_of(server):
    """A task that asks the server about the input."""
    return ef.ChatTask(model_of(server), "{{ item.input }}")


def of_outputs(*texts):
    """Rows with these outputs."""
    return pd.DataFrame({"output": pd.Series(texts, dtype="string")})


def of_inputs(*texts):
    """Rows with these inputs."""
    return pd.DataFrame({"input": pd.Series(texts, dtype="string")})


def rows_of(costs, name="j"):
    """The rows of the estimate about one evaluator, as dicts with None for NA."""
    table = pa.table({column: pa.array(costs[column]) for column in costs})
    return [found for found in table.to_pylist() if found["evaluator"] == name]


def counts(costs, name="j", place=0):
    """Cells, done, unique, cached, requests."""
    row = rows_of(costs, name)[place]
    return [row[column] for column in ("cells", "done", "unique", "cached", "requests")]


def sent(server, *args, **options):
    """How many requests a run sends."""
    server.reset()
    ef.run_experiment(*args, **options)
    return server.calls


def files_in(folder):
    """Every file below a folder with its content."""
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def reused(run_dir, name="j"):
    """By the run's own count, the cells that it has taken over."""
    return json.loads((run_dir / "run.json").read_text())["evaluators"][name]["counts"]["n_reused"]


@FEW
@given(
    texts=st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=10),
    first=st.integers(0, 10),
    repetitions=st.integers(1, 3),
    keeps_replies=st.booleans(),
)
def test_a_run_dir_is_taken_off_as_the_run_takes_it_off(
    serve, tmp_path_factory, *, texts, first, repetitions, keeps_replies
):
    """With equal rows, nulls and repetitions; and looking changes no file."""
    server, folder = serve(YES), tmp_path_factory.mktemp("runs")
    run_dir, data, judges = folder / "qa", of_outputs(*texts), [judge_of(server)]
    options = {"run_dir": run_dir, "repetitions": repetitions}
    begun = data.head(first)
    if len(begun):
        ef.run_experiment(begun, evaluators=judges, **options)
    if not keeps_replies:
        options["cache"] = folder / "other.sqlite"
    before = files_in(folder)
    costs = ef.estimate(data, evaluators=judges, **options)

    assert files_in(folder) == before
    assert run_dir.exists() == bool(len(begun))
    assert sent(server, data, evaluators=judges, **options) == counts(costs)[-1]
    assert counts(costs)[1] == reused(run_dir) == len(begun) * repetitions
    asked_about = sum(text is not None for text in texts[first:]) * repetitions
    assert counts(costs)[0] == counts(costs)[1] + asked_about


def mixed(server):
    """Eight rows: scored, unparsable, edited since, and not run, two of each."""
    whole = of_outputs(*(f"{kind}{n}" for kind in ("ok", "bad", "old", "new") for n in range(2)))
    scored = ef.run_experiment(whole.head(6), evaluators=[judge_of(server)], details=True)
    scored.loc[4:5, "output"] = ["edited0", "edited1"]
    return pd.concat([scored, whole.tail(2)], ignore_index=True)


def unparsable_where_bad(request):
    """No verdict on a row that says so."""
    return label("maybe") if "bad" in request.prompt else YES


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        pytest.param("missing", [8, 6, 2, 0, 2], id="missing"),
        pytest.param("failed", [6, 4, 2, 0, 2], id="failed"),
        pytest.param("stale", [8, 4, 4, 0, 4], id="stale"),
        pytest.param("all", [8, 0, 8, 0, 8], id="all"),
        pytest.param(None, [8, 0, 8, 0, 8], id="overwrite"),
    ],
)
def test_each_word_of_only_leaves_what_its_run_leaves(serve, only, expected):
    """What is neither there nor made, as with "failed" what was never run, is no cell of it."""
    server = serve(unparsable_where_bad)
    data, judges = mixed(server), [judge_of(server)]
    costs = ef.estimate(data, evaluators=judges, only=only)

    assert counts(costs) == expected
    how = {"overwrite": True} if only is None else {"only": only}
    assert sent(server, data, evaluators=judges, **how) == expected[-1]


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        pytest.param("missing", [8, 7, 1, 0, 1], id="missing"),
        pytest.param("failed", [6, 4, 2, 0, 2], id="failed"),
        pytest.param("stale", [8, 6, 2, 0, 2], id="stale"),
        pytest.param("all", [8, 0, 8, 0, 8], id="all"),
    ],
)
def test_frame_and_run_dir_are_both_taken_off(serve, tmp_path, only, expected):
    """The run_dir has one of the two new rows, and one of the two that were edited."""
    server = serve(unparsable_where_bad)
    data, judges = mixed(server), [judge_of(server)]
    options = {"run_dir": tmp_path / "qa", "cache": tmp_path / "other.sqlite"}
    ef.run_experiment(of_outputs("new0", "edited1"), evaluators=judges, run_dir=tmp_path / "qa")
    costs = ef.estimate(data, evaluators=judges, only=only, **options)

    assert counts(costs) == expected
    assert sent(server, data, evaluators=judges, only=only, **options) == expected[-1]


def test_replies_in_the_run_dir_are_the_cache_if_no_other_is_given(serve, tmp_path):
    """A judge that asks what another has asked in that folder pays nothing."""
    server, run_dir = serve(YES), tmp_path / "qa"
    ef.run_experiment(of_outputs("a", "b"), evaluators=[judge_of(server)], run_dir=run_dir)
    judges = [judge_of(server), judge_of(server, "k")]
    costs = ef.estimate(of_outputs("a", "b", "c"), evaluators=judges, run_dir=run_dir)

    assert counts(costs) == [3, 2, 1, 0, 1]
    assert counts(costs, "k") == [3, 0, 2, 2, 0]
    assert sent(server, of_outputs("a", "b", "c"), evaluators=judges, run_dir=run_dir) == 1


def failing_on(*texts):
    """Outputs, but for these inputs; and verdicts."""

    def script(request):
        if "Is it so?" in request.prompt:
            return YES
        return error(400, "No.") if request.prompt in texts else reply(f"out {request.prompt}")

    return script


TASKS = pytest.mark.parametrize("kept_in", ["frame", "run_dir"])


@TASKS
def test_what_judges_ask_of_outputs_that_are_there_is_counted(serve, tmp_path, kept_in):
    """What they will ask of those to come is a row of its own, and not known."""
    server = serve(failing_on("b", "c"))
    given = task_of(server), [judge_of(server)]
    data, options = of_inputs("a", "b", "c", "d"), {"only": "failed"}
    if kept_in == "frame":
        data = ef.run_experiment(data, *given)
        data.loc[3, [column for column in data if column.startswith("eval.")]] = None
        options["only"] = "missing"
    else:
        options |= {"run_dir": tmp_path / "qa", "cache": tmp_path / "other.sqlite"}
        ef.run_experiment(data, given[0], run_dir=tmp_path / "qa")
    costs = ef.estimate(data, *given, **options)

    done = 1 if kept_in == "frame" else 0
    assert counts(costs, "<task>") == [4, 2, 2, 0, 2]
    there, to_come = rows_of(costs)
    assert (there["rows"], to_come["rows"]) == (2, 2)
    assert counts(costs) == [2, done, 2 - done, 0, 2 - done]
    assert counts(costs, place=1) == [None, 0, None, None, None]
    assert to_come["basis"] == NO_OUTPUT
    assert counts(costs, "<total>") == [None, 2 + done, None, None, None]
    server.reset()
    ef.run_experiment(data, *given, **options)
    prompts = [request.prompt for request in server.requests]
    assert sum(prompt in "bc" for prompt in prompts) == 2
    assert sum(prompt.endswith(("out a", "out d")) for prompt in prompts) == 2 - done


@TASKS
def test_nothing_is_unknown_where_all_outputs_are_there(serve, tmp_path, kept_in):
    """Equal rows have outputs of their own, which are judged as one question."""
    server = serve(failing_on())
    task, data = task_of(server), of_inputs("a", "a", "b")
    options = {"run_dir": tmp_path / "qa", "cache": tmp_path / "other.sqlite"}
    scored = ef.run_experiment(data, task, run_dir=tmp_path / "qa")
    if kept_in == "frame":
        data, options = scored, {"only": "missing"}
    costs = ef.estimate(data, task, [judge_of(server)], **options)

    assert counts(costs, "<task>") == [3, 3, 0, 0, 0]
    assert counts(costs) == [3, 0, 2, 0, 2]
    assert sent(server, data, task, [judge_of(server)], **options) == 2


def test_a_failed_output_in_the_run_dir_is_done_and_leaves_its_row_out(serve, tmp_path):
    """As in the run, which judges no row without an output."""
    server = serve(failing_on("b"))
    task, data, run_dir = task_of(server), of_inputs("a", "b"), tmp_path / "qa"
    judges = [judge_of(server), judge_of(server, "k", prompt="Is it so? {{ item.input }}")]
    ef.run_experiment(data, task, run_dir=run_dir)
    costs = ef.estimate(data, task, judges, run_dir=run_dir)

    assert counts(costs, "<task>") == [2, 2, 0, 0, 0]
    assert counts(costs) == counts(costs, "k") == [1, 0, 1, 0, 1]
    assert sent(server, data, task, judges, run_dir=run_dir) == 2


def test_repetitions_of_a_frame_keep_the_requests_of_their_own(serve, tmp_path):
    """Their number is a column of the frame, by which the cache tells their replies apart."""
    server, cache = serve(YES), tmp_path / "replies.sqlite"
    judges = [judge_of(server)]
    scored = ef.run_experiment(of_outputs("a", "b"), evaluators=judges, repetitions=3, cache=cache)
    costs = ef.estimate(scored.iloc[1:], evaluators=judges, only="all", cache=cache)

    assert counts(costs) == [5, 0, 5, 5, 0]
    assert sent(server, scored.iloc[1:], evaluators=judges, only="all", cache=cache) == 0


def test_a_probe_asks_only_what_is_left_and_keeps_its_replies_in_the_run_dir(serve, tmp_path):
    """They are paid for once, also where the run has no folder yet."""
    server, data = serve(YES), of_outputs(*"abcdef")
    judges, run_dir = [judge_of(server)], tmp_path / "qa"
    ef.estimate(data, evaluators=judges, run_dir=run_dir, probe=2)
    assert server.calls == 2

    ef.run_experiment(data.head(3), evaluators=judges, run_dir=run_dir)
    server.reset()
    costs = ef.estimate(data, evaluators=judges, run_dir=run_dir, probe=9)
    assert server.calls == counts(costs)[-1]
    assert rows_of(costs)[0]["basis"] == f"usage of {server.calls} calls"
    assert sent(server, data, evaluators=judges, run_dir=run_dir) == 0


def test_who_has_nothing_left_needs_no_price_and_no_guess(serve, tmp_path):
    """Nothing costs nothing, and leaves the total as it is."""
    server = serve(YES)
    vectors = serve(embeddings(lambda text: [1.0, float(len(text))]))
    similar = ef.SemanticSimilarity(model_of(vectors), name="near")
    data = of_outputs("a", "b").assign(dataset_output="a")
    scored = ef.run_experiment(data, evaluators=[judge_of(server), similar])
    second = judge_of(server, "k", price={"input": 2.0, "output": 8.0})
    costs = ef.estimate(scored, evaluators=[judge_of(server), similar, second], only="missing")

    for name in ("j", "near"):
        assert counts(costs, name) == [2, 2, 0, 0, 0]
        assert rows_of(costs, name)[0]["cost"] == 0
        assert rows_of(costs, name)[0]["basis"] == "nothing to send"
    total, priced = rows_of(costs, "<total>")[0], rows_of(costs, "k")[0]
    assert math.isclose(total["cost"], priced["cost"])
    assert total["basis"] == priced["basis"]
    assert counts(costs, "<total>") == [6, 4, 2, 0, 2]


def test_what_is_left_to_embed_is_not_known_but_what_is_done_is(serve):
    """A total that left it out would be too low."""
    vectors = serve(embeddings(lambda text: [1.0, float(len(text))]))
    similar = ef.SemanticSimilarity(model_of(vectors), name="near")
    data = of_outputs("a", "b", "c").assign(dataset_output="a")
    scored = ef.run_experiment(data.head(2), evaluators=[similar])
    longer = pd.concat([scored, data.tail(1)], ignore_index=True)
    costs = ef.estimate(longer, evaluators=[similar], only="missing")

    assert counts(costs, "near") == counts(costs, "<total>") == [None, 2, None, None, None]


def test_a_run_dir_in_use_is_looked_into_all_the_same(serve, tmp_path):
    """The estimate sees what the run has written so far; it takes no lock, and waits for none."""
    server, run_dir, seen, refused = serve(YES), tmp_path / "qa", [], []
    data, judges = of_outputs("a", "b"), [judge_of(server)]
    ef.run_experiment(data.head(1), evaluators=judges, run_dir=run_dir)

    @ef.evaluator(version="1")
    def looks(output):
        seen.append(counts(ef.estimate(data, evaluators=judges, run_dir=run_dir)))
        try:
            ef.run_experiment(data, evaluators=judges, run_dir=run_dir)
        except ef.RunDirError as exc:
            refused.append(str(exc))
        return output == "a"

    ef.run_experiment(data.head(1), evaluators=[*judges, looks], run_dir=run_dir)

    assert seen == [[2, 1, 1, 0, 1]]
    assert "another run of this process has been using it" in refused[0]


@pytest.mark.parametrize(
    ("name", "content"), [("qa", "text"), ("qa/notes.txt", "text"), ("qa/run.json", "{")]
)
def test_a_run_dir_that_no_run_could_use_is_refused(serve, tmp_path, name, content):
    """A file, a folder of something else, a damaged record."""
    server, file = serve(YES), tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(content)
    with pytest.raises(ef.RunDirError, match="run_dir="):
        ef.estimate(of_outputs("a"), evaluators=[judge_of(server)], run_dir=tmp_path / "qa")


def test_a_run_dir_of_other_rows_is_refused_as_by_the_run(serve, tmp_path):
    """With the same words."""
    server, run_dir = serve(YES), tmp_path / "qa"
    ef.run_experiment(of_outputs("a"), evaluators=[judge_of(server)], run_dir=run_dir)
    told = []
    for refuses in (ef.estimate, ef.run_experiment):
        with pytest.raises(ef.RunDirError, match="none of them belongs to this run") as caught:
            refuses(of_outputs("z"), evaluators=[judge_of(server)], run_dir=run_dir)
        told.append(str(caught.value))

    assert told[0] == told[1]


def test_a_damaged_journal_is_refused(serve, tmp_path):
    """Its cells cannot be counted."""
    server, run_dir = serve(YES), tmp_path / "qa"
    ef.run_experiment(of_outputs("a"), evaluators=[judge_of(server)], run_dir=run_dir)
    (file,) = (run_dir / "journal").glob("j-*")
    file.write_bytes(b"x" * file.stat().st_size)
    with pytest.raises(ef.JournalError, match="is no journal of evalframe"):
        ef.estimate(of_outputs("a"), evaluators=[judge_of(server)], run_dir=run_dir)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"only": "some"}, "only must be 'missing'", id="word"),
        pytest.param({"only": "all", "repetitions": 2}, "leave one out", id="repetitions"),
        pytest.param({"run_dir": 7}, "run_dir must be the path of a folder", id="run-dir"),
        pytest.param({"only": "stale"}, "needs the column", id="no-fingerprints"),
    ],
)
def test_what_a_run_would_refuse_of_its_arguments_is_refused(serve, options, message):
    """With the run's own words."""
    server = serve(YES)
    scored = ef.run_experiment(of_outputs("a"), evaluators=[judge_of(server)])
    with pytest.raises(ef.ExperimentError, match=message):
        ef.estimate(scored, evaluators=[judge_of(server)], **options)


def test_a_run_dir_may_be_a_text(serve, tmp_path, monkeypatch):
    """Also one relative to the working directory."""
    server = serve(YES)
    monkeypatch.chdir(tmp_path)
    ef.run_experiment(of_outputs("a"), evaluators=[judge_of(server)], run_dir="runs/qa")
    costs = ef.estimate(of_outputs("a"), evaluators=[judge_of(server)], run_dir="runs/qa")

    assert counts(costs) == [1, 1, 0, 0, 0]
    assert Path("runs/qa").is_dir()
