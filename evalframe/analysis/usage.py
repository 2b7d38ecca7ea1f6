"""What models have cost in a frame's runs."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa

from evalframe.core.columns import backed
from evalframe.core.run_info import remembered

_COUNTS = (
    "cells",
    "calls",
    "cached",
    "shared",
    "reasked",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
)


def usage(frame: pd.DataFrame) -> pd.DataFrame:
    """What models were asked, and what it cost: one row per judge, and one for a ChatTask.

    Runs with `only=` add to what the runs before them have cost; making results anew begins again.

    An evaluator that embeds texts with a model has a row, too: there `cached` are the cells whose
    texts all came from the cache, `shared` the others that needed no text of their own sent.

    Columns: `evaluator` ("<task>" for the task), `cells`, `calls` (requests that were answered),
    `cached` (cells answered from the cache), `shared` (cells answered by another cell's
    request), `reasked` (requests sent because a reply was invalid), `prompt_tokens`,
    `completion_tokens`, `cached_tokens`, `cost` in dollars (NA without a price, or
    where a server did not count), `models` (those that answered, by their servers' word).

    Args:
        frame: A frame that `run_experiment` gave.

    Returns:
        A frame; empty, with all columns, where no model was asked.

    Examples:
        >>> import evalframe as ef
        >>> from evalframe.testing import ChatServer, label
        >>> with ChatServer(label("yes", explanation="It is.")) as server:
        ...     model = ef.Model("local/judge", base_url=server.base_url)
        ...     judge = ef.LLMJudge("ok", model=model, prompt="{{ item.x }}", choices=["yes", "no"])
        ...     scored = ef.run_experiment([{"x": "a"}, {"x": "a"}], evaluators=[judge])
        >>> scored.evals.usage()[["evaluator", "cells", "calls", "shared"]]
          evaluator  cells  calls  shared
        0        ok      2      1       1
    """
    spent = remembered(frame.attrs).usage
    columns = {"evaluator": backed(pa.array(list(spent), pa.large_string()))}
    for name in _COUNTS:
        values = [facts.get(name, 0) for facts in spent.values()]
        columns[name] = backed(pa.array(values, pa.int64()))
    costs = [facts.get("cost") for facts in spent.values()]
    columns["cost"] = backed(pa.array(costs, pa.float64()))
    models = [", ".join(facts.get("models", ())) for facts in spent.values()]
    columns["models"] = backed(pa.array(models, pa.large_string()))
    return pd.DataFrame(columns)
