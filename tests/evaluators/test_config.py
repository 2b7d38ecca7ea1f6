"""A guided-decoding task as configuration: the same judge as in code, or an error with the key."""

import copy
import json
import sys
import textwrap

import pandas as pd
import pytest

import evalframe as ef
from evalframe.testing import label, obedient

TASK = {
    "task_type": "auto_evaluation.guided_decoding",
    "alias": "polite",
    "configuration": {
        "model": "openai/gpt-5-mini",
        "prompt": "Is this polite? {{ item.output }}",
        "choices": ["yes", "no"],
    },
}
SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "integer", "minimum": 1, "maximum": 5}},
    "required": ["score"],
}
ROWS = [{"output": "please"}, {"output": "now!"}]


def task_of(alias="polite", without=(), **changes):
    """The task with other keys in its configuration."""
    inner = {**TASK["configuration"], **changes}
    inner = {key: value for key, value in inner.items() if key not in without}
    return {**TASK, "alias": alias, "configuration": inner}


def from_file(folder, found, suffix=".json"):
    """The evaluators of a file that holds this."""
    path = folder / f"judges{suffix}"
    path.write_text(found if isinstance(found, str) else json.dumps(found), "utf-8")
    return ef.load_evaluators(path)


def test_a_task_is_the_judge_that_code_would_make(tmp_path):
    """Equal to it, whichever way it was written."""
    (judge,) = from_file(tmp_path, [TASK])

    assert judge == ef.LLMJudge(
        "polite",
        model=ef.Model("openai/gpt-5-mini"),
        prompt="Is this polite? {{ item.output }}",
        choices=["yes", "no"],
    )


YAML = """
tasks:
  - task_type: auto_evaluation.guided_decoding
    alias: polite
    configuration:
      model: openai/gpt-5-mini
      prompt: "Is this polite? {{ item.output }}"
      choices: ["yes", "no"]
"""


@pytest.mark.parametrize(
    ("found", "suffix"),
    [
        pytest.param([TASK], ".json", id="json-list"),
        pytest.param({"tasks": [TASK]}, ".json", id="json-object"),
        pytest.param(YAML, ".yaml", id="yaml"),
        pytest.param(YAML, ".yml", id="yml"),
        pytest.param(YAML, ".YAML", id="upper-case"),
    ],
)
def test_files_hold_a_list_of_tasks_or_an_object_with_one(tmp_path, found, suffix):
    """In JSON or YAML."""
    (first,) = from_file(tmp_path, [TASK])

    assert from_file(tmp_path, found, suffix) == [first]


@pytest.mark.parametrize(
    ("found", "suffix", "message"),
    [
        pytest.param("{", ".json", r"Cannot read '.*judges\.json': Expecting", id="no-json"),
        pytest.param("a: [", ".yaml", r"Cannot read '.*judges\.yaml': while", id="no-yaml"),
        pytest.param("5", ".json", "must hold a list of tasks", id="number"),
        pytest.param({"task": []}, ".json", "must hold a list of tasks", id="no-tasks"),
        pytest.param(["a"], ".json", "must hold a list of tasks", id="no-objects"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path, found, suffix, message):
    """With what is wrong with it."""
    with pytest.raises(ef.ConfigError, match=message):
        from_file(tmp_path, found, suffix)


def test_a_file_that_is_not_there_is_named(tmp_path):
    """As one that cannot be read."""
    with pytest.raises(ef.ConfigError, match=r"Cannot read '.*none\.yaml'"):
        ef.load_evaluators(tmp_path / "none.yaml")


def test_yaml_without_its_package_says_what_to_install(tmp_path, monkeypatch):
    """The package is an extra."""
    monkeypatch.setitem(sys.modules, "yaml", None)

    with pytest.raises(ef.MissingExtraError, match=r"pip install 'evalframe\[yaml\]'"):
        from_file(tmp_path, YAML, ".yaml")


WRONG = [
    pytest.param({**TASK, "task_type": "x"}, "task_type 'x' is not known", id="type"),
    pytest.param({**TASK, "aliass": "x"}, "unknown key 'aliass'. Did you mean 'alias'", id="outer"),
    pytest.param({**TASK, "configuration": None}, "configuration must be an", id="no-object"),
    pytest.param({**TASK, "alias": 5}, "alias must be text, not 5", id="alias"),
    pytest.param({**TASK, "alias": ""}, "alias must be text", id="alias-empty"),
    pytest.param({**TASK, "alias": False}, "quote .yes. and .no.", id="alias-bool"),
    pytest.param({**TASK, "alias": "a.b"}, "holds a dot", id="alias-dot"),
    pytest.param(
        task_of(choice=["a"]),
        "'polite' has the unknown key 'choice'. Did you mean 'choices'",
        id="in",
    ),
    pytest.param(
        task_of(without=["model", "prompt"]), "'polite' lacks 'model', 'prompt'", id="lacks"
    ),
    pytest.param(
        task_of(response_format=SCHEMA), "exactly one of choices and response_format", id="both"
    ),
    pytest.param(
        task_of(without=["choices"]), "exactly one of choices and response_format", id="neither"
    ),
    pytest.param(
        task_of(without=["choices"], response_format=SCHEMA, explanation=False),
        "explanation= goes with choices",
        id="explanation-of-a-format",
    ),
    pytest.param(task_of(fields={"label": "x"}), "choices have none", id="fields-of-choices"),
    pytest.param(task_of(choices="yes"), "choices: give a list of labels", id="choices"),
    pytest.param(task_of(model=5), r"Model\(5\)", id="model"),
    pytest.param(task_of(model="gpt"), "'<provider>/<model>'", id="model-name"),
    pytest.param(task_of(structured="xml"), "structured must be one of", id="structured"),
    pytest.param(task_of(rpm=0), "rpm must be a whole number", id="rpm"),
    pytest.param(task_of(prompt=5), "A prompt is text", id="prompt"),
    pytest.param(task_of(system_prompt=5), "A prompt is text", id="system-prompt"),
    pytest.param(task_of(inference_args={"n": 2}), "the judge itself sets 'n'", id="args"),
    pytest.param(task_of(threshold=3), "threshold must be a number", id="threshold"),
    pytest.param(task_of(score_range=[1]), "score_range must be", id="range"),
    pytest.param(task_of(confidence="yes"), "confidence must be True or False", id="confidence"),
    pytest.param(task_of(api_key="sk-1"), "unknown key 'api_key'", id="key"),
]


@pytest.mark.parametrize(("task", "message"), WRONG)
def test_a_wrong_key_or_value_is_named(tmp_path, task, message):
    """From a file, and where an evaluator is asked for; nothing has been sent."""
    with pytest.raises(ef.ConfigError, match=message):
        from_file(tmp_path, [task])
    with pytest.raises(ef.ExperimentError, match=message):
        ef.run_experiment(ROWS, evaluators=[task])


def test_a_key_that_was_written_into_a_configuration_is_not_repeated(tmp_path):
    """Not even in the error that refuses it."""
    with pytest.raises(ef.ConfigError, match="unknown key 'api_key'") as caught:
        from_file(tmp_path, [task_of(api_key="sk-secret-1234567")])

    assert "sk-secret" not in str(caught.value)


FULL = {
    "model": "local/m",
    "base_url": "http://127.0.0.1:1/v1",
    "api_key_env": "MY_KEY",
    "rpm": 60,
    "tpm": 6000,
    "max_retries": 2,
    "timeout": 9.0,
    "price": {"input": 1.0},
    "structured": "tool",
    "system_prompt": "Be fair.",
    "prompt": [{"role": "user", "content": "{{ item.output }}"}],
    "inference_args": {"temperature": 0, "seed": 1},
    "run_if": "item.output | length > 0",
    "invalid_retries": 0,
    "threshold": 3,
    "direction": "minimize",
    "score_range": [0, 5],
    "version": "2",
}


@pytest.mark.parametrize(
    "inner",
    [
        pytest.param(TASK["configuration"], id="plain"),
        pytest.param({**FULL, "choices": {"a": 1, "b": 5}}, id="choices"),
        pytest.param(
            {**FULL, "choices": ["a", "b"], "explanation": False, "confidence": True}, id="flags"
        ),
        pytest.param(
            {**FULL, "response_format": SCHEMA, "fields": {"score": "score"}}, id="format"
        ),
    ],
)
def test_a_configuration_is_given_back_by_its_judge(tmp_path, inner):
    """`to_config` gives what the judge was made of, as JSON can hold it."""
    task = {**TASK, "configuration": inner}
    (judge,) = from_file(tmp_path, [task])

    config = json.loads(json.dumps(judge.to_config()))

    assert config == task
    assert from_file(tmp_path, [config]) == [judge]


def test_a_copy_with_another_name_gives_that_name():
    """As its alias."""
    judge = ef.LLMJudge("a", model="openai/x", prompt="{{ item.output }}", choices=["y", "n"])

    assert judge.named("b").to_config() == {**judge.to_config(), "alias": "b"}


@pytest.mark.parametrize(
    ("options", "change", "message"),
    [
        pytest.param({"run_if": lambda output: True}, None, "run_if of 'a' is a function", id="f"),
        pytest.param({}, {"output": "answer"}, r"'a' was changed with \.bind", id="bound"),
    ],
)
def test_what_no_configuration_can_hold_is_refused(options, change, message):
    """Rather than left out in silence."""
    judge = ef.LLMJudge(
        "a", model="openai/x", prompt="{{ item.output }}", choices=["y", "n"], **options
    )
    judge = judge.bind(**change) if change else judge

    with pytest.raises(ef.ConfigError, match=message):
        judge.to_config()


def test_configurations_stand_beside_other_evaluators(serve):
    """In a list, in a mapping, and alone."""
    server = serve(label("yes", explanation="e"))
    task = task_of(model="local/m", base_url=server.base_url)
    before = copy.deepcopy(task)

    def short(output):
        return len(output) < 5

    listed = ef.run_experiment(
        ROWS, evaluators=[short, task, task_of("b", **task["configuration"])]
    )
    mapped = ef.run_experiment(ROWS, evaluators={"mine": task, "short": short})
    alone = ef.run_experiment(ROWS, evaluators=task)

    assert listed.evals.names == ["short", "polite", "b"]
    assert mapped.evals.names == ["mine", "short"]
    assert alone.evals.names == ["polite"]
    assert alone["eval.polite.label"].tolist() == ["yes", "yes"]
    assert task == before


def test_two_tasks_without_alias_need_one():
    """They would have the same columns."""
    task = {key: value for key, value in TASK.items() if key != "alias"}

    with pytest.raises(ef.ExperimentError, match="Two evaluators are named 'auto_evaluation_guid"):
        ef.run_experiment(ROWS, evaluators=[task, task])


def experiment_of(server, **changes):
    """A whole experiment on the server."""
    task = task_of(model="local/m", base_url=server.base_url)
    return {"name": "Politeness", "data": ROWS, "tasks": [task], **changes}


@pytest.mark.parametrize("way", ["dict", "json", "yaml"])
def test_an_experiment_runs_from_a_dict_or_a_file(serve, tmp_path, way):
    """Its data may stand in it, and its name is recorded."""
    server = serve(obedient)
    config = experiment_of(server)
    if way != "dict":
        text = json.dumps(config)  # which YAML reads too
        config = tmp_path / f"experiment.{way}"
        config.write_text(text, "utf-8")

    scored = ef.load_experiment(config)

    assert scored["output"].tolist() == ["please", "now!"]
    assert scored["eval.polite.error"].isna().all()
    assert json.loads(scored.attrs["evalframe"])["experiment_name"] == "Politeness"


def test_the_data_of_an_experiment_may_be_a_file(serve, tmp_path):
    """Any that `Dataset` reads."""
    path = tmp_path / "rows.jsonl"
    path.write_text('{"output": "please"}\n', "utf-8")
    scored = ef.load_experiment(experiment_of(serve(obedient), data=str(path)))

    assert len(scored) == 1


def test_yaml_words_for_true_stay_choices_only_in_quotes(tmp_path):
    """YAML 1.1 reads yes and no as booleans: the error says which value it is."""
    text = textwrap.dedent(YAML).replace('["yes", "no"]', "[yes, no]")

    with pytest.raises(ef.ConfigError, match="a label must be text, not True"):
        from_file(tmp_path, text, ".yaml")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        pytest.param({"data": [], "task": []}, "has the unknown key 'task'", id="unknown"),
        pytest.param({"tasks": []}, "lacks 'data'", id="no-data"),
        pytest.param({"data": []}, "lacks 'tasks'", id="no-tasks"),
        pytest.param({"data": [], "tasks": TASK}, "tasks must be a list", id="one-task"),
        pytest.param({"data": [], "tasks": ["a"]}, "tasks must be a list", id="text"),
        pytest.param({"data": ROWS, "tasks": [task_of(choice=1)]}, "unknown key 'choice'", id="in"),
    ],
)
def test_a_wrong_experiment_is_named(config, message):
    """Before its data is read."""
    with pytest.raises(ef.ConfigError, match=message):
        ef.load_experiment(config)


def test_an_experiment_file_that_holds_no_object_is_named(tmp_path):
    """It is described instead."""
    path = tmp_path / "experiment.json"
    path.write_text("[]", "utf-8")

    with pytest.raises(ef.ConfigError, match="An experiment is an object with 'name', 'data'"):
        ef.load_experiment(path)


def test_an_experiment_without_tasks_has_nothing_to_run():
    """As a run without evaluators."""
    with pytest.raises(ef.ExperimentError, match="nothing to run"):
        ef.load_experiment({"data": ROWS, "tasks": []})


def test_results_of_a_configured_judge_are_those_of_the_same_in_code(serve):
    """The same requests, the same cells."""
    server = serve(obedient)
    task = task_of(model="local/m", base_url=server.base_url)
    model = ef.Model("local/m", base_url=server.base_url)
    judge = ef.LLMJudge(
        "polite", model=model, prompt=task["configuration"]["prompt"], choices=["yes", "no"]
    )

    configured = ef.run_experiment(ROWS, evaluators=[task])
    coded = ef.run_experiment(ROWS, evaluators=[judge])

    pd.testing.assert_frame_equal(configured, coded)
    bodies = [request.body for request in server.requests]
    assert bodies[:2] == bodies[2:]
