"""`max_cost=` asks for the prices of models that have something to do, and of no others."""

import pandas as pd
import pytest

import evalframe as ef
from evalframe.testing import label

PRICE = {"input": 2.0, "output": 8.0}
YES = label("yes", usage={"prompt_tokens": 50, "completion_tokens": 5})
# What a run says of results that it has taken over is another test's matter.
pytestmark = pytest.mark.filterwarnings("ignore:.*finished before, and not run again")


def judge_of(server, name, **options):
    """A judge of the output."""
    model = ef.Model("local/m", base_url=server.base_url, max_retries=0, **options)
    return ef.LLMJudge(
        name, model=model, prompt="Is it so? {{ item.output }}", choices=["yes"], explanation=False
    )


def of_outputs(*texts):
    """Rows with these outputs."""
    return pd.DataFrame({"output": pd.Series(texts, dtype="string")})


@pytest.mark.parametrize("only", ["missing", "failed", "stale"])
def test_a_judge_whose_cells_are_in_the_frame_needs_no_price(serve, only):
    """It will not be asked."""
    server = serve(YES)
    free = judge_of(server, "free")
    scored = ef.run_experiment(of_outputs("a"), evaluators=[free], details=True)
    priced = judge_of(server, "priced", price=PRICE)
    both = ef.run_experiment(scored, evaluators=[free, priced], only=only, max_cost=1.0)

    assert both["eval.priced.label"].tolist() == ["yes"]
    assert server.calls == 2


@pytest.mark.parametrize("only", ["missing", "all"])
def test_a_judge_with_one_cell_to_make_needs_its_price(serve, only):
    """Before anything is sent."""
    server = serve(YES)
    judge = judge_of(server, "free")
    scored = ef.run_experiment(of_outputs("a"), evaluators=[judge])
    longer = pd.concat([scored, of_outputs("b")], ignore_index=True)
    with pytest.raises(ef.ExperimentError, match="'free': max_cost= needs the price"):
        ef.run_experiment(longer, evaluators=[judge], only=only, max_cost=1.0)

    assert server.calls == 1


def test_a_judge_whose_cells_are_in_the_run_dir_needs_no_price(serve, tmp_path):
    """The same call again, with a limit, goes on with the other judge."""
    server, run_dir = serve(YES), tmp_path / "qa"
    free, priced = judge_of(server, "free"), judge_of(server, "priced", price=PRICE)
    ef.run_experiment(of_outputs("a"), evaluators=[free], run_dir=run_dir)
    scored = ef.run_experiment(
        of_outputs("a"), evaluators=[free, priced], run_dir=run_dir, max_cost=1.0
    )

    assert scored["eval.priced.label"].tolist() == ["yes"]


def test_a_run_dir_that_lacks_a_cell_of_an_unpriced_judge_is_left_as_it_was(serve, tmp_path):
    """Nothing is sent, its record stays, and the next run can take it."""
    server, run_dir = serve(YES), tmp_path / "qa"
    judge, data = judge_of(server, "free"), of_outputs("a", "b")
    ef.run_experiment(data.head(1), evaluators=[judge], run_dir=run_dir)
    record = (run_dir / "run.json").read_bytes()
    with pytest.raises(ef.ExperimentError, match="'free': max_cost= needs the price"):
        ef.run_experiment(data, evaluators=[judge], run_dir=run_dir, max_cost=1.0)

    assert server.calls == 1
    assert (run_dir / "run.json").read_bytes() == record
    ef.run_experiment(data, evaluators=[judge], run_dir=run_dir)
    assert server.calls == 2


def test_a_refused_run_makes_no_run_dir(serve, tmp_path):
    """What is lacking is known without one, and told with all that is wrong."""
    judge = judge_of(serve(YES), "free")
    with pytest.raises(ef.ExperimentError, match="needs the price") as caught:
        ef.run_experiment(
            of_outputs("a"),
            evaluators=[judge],
            run_dir=tmp_path / "qa",
            max_cost=1.0,
            concurrency=0,
        )

    assert len(caught.value.problems) == 2
    assert not (tmp_path / "qa").exists()


def test_a_judge_of_rows_without_output_needs_no_price(serve):
    """Where the task has failed there is nothing to ask about."""
    data = of_outputs(None).assign(**{"task.error": "exception: no"})
    judge = judge_of(serve(YES), "free")
    scored = ef.run_experiment(data, evaluators=[judge], only="missing", max_cost=1.0)

    assert scored["eval.free.error"].tolist() == ["task_failed: not run, the task failed"]
