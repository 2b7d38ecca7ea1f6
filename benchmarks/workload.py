"""What every contender works on: short texts from a seed, and the evaluators as plain functions.

Standard library only, so that the peers' environments can import it too.

columns            three columns of text, the same for the same number of rows
exact, token_f1,   the three evaluators of the row by row contenders
mentioned_year
short              the third evaluator of the vectorized pair, where token F1 cannot be
"""

from __future__ import annotations

import random
import re
from collections import Counter

SEED = 20261130
SHORT = 40
YEAR = r"\b[12][0-9]{3}\b"

_VOCABULARY = """
the a of in on at with from city river mountain king queen battle treaty red green blue old new
first last great small north south east west winter summer bridge island harbour castle painter
writer engine compass signal paper copper silver garden letter market moon planet ocean forest
valley railway museum library council senate empire republic colony border capital language
grammar theorem number circle vector atom enzyme protein vaccine comet
"""
_WORDS = _VOCABULARY.split()
_YEAR = re.compile(YEAR)


def columns(rows: int) -> dict[str, list[str]]:
    """Give `question`, `answer` and `truth`: 3 in 10 answers are exact, 4 close, 3 unrelated."""
    rng = random.Random(SEED)
    table: dict[str, list[str]] = {"question": [], "answer": [], "truth": []}
    for _ in range(rows):
        truth = rng.choices(_WORDS, k=rng.randint(3, 9))
        if rng.random() < 0.3:
            truth.append(str(rng.randint(1000, 2029)))
        answer = list(truth)
        kind = rng.random()
        if kind >= 0.7:
            answer = rng.choices(_WORDS, k=rng.randint(3, 9))
        elif kind >= 0.3:
            answer[rng.randrange(len(answer))] = rng.choice(_WORDS)
        table["question"].append(f"Which {rng.choice(_WORDS)} has the {rng.choice(_WORDS)}?")
        table["answer"].append(" ".join(answer))
        table["truth"].append(" ".join(truth))
    return table


def exact(output: str, dataset_output: str) -> bool:
    """Exact match: label and score."""
    return output == dataset_output


def token_f1(output: str, dataset_output: str) -> float:
    """F1 over lower-case words, counted with repetition: a score."""
    said, wanted = output.lower().split(), dataset_output.lower().split()
    common = sum((Counter(said) & Counter(wanted)).values())
    if common == 0:
        return 0.0
    precision, recall = common / len(said), common / len(wanted)
    return 2 * precision * recall / (precision + recall)


def mentioned_year(output: str) -> tuple[str, str]:
    """Find a year by a regular expression: label and explanation."""
    found = _YEAR.search(output)
    if found is None:
        return "undated", "no year in it"
    return "dated", f"mentions {found[0]}"


def short(output: str) -> bool:
    """Length check: label and score."""
    return len(output) < SHORT


def expected_totals(rows: int) -> dict[str, float]:
    """Give what the results of the three row by row evaluators add up to."""
    table = columns(rows)
    pairs = list(zip(table["answer"], table["truth"], strict=True))
    return {
        "exact": float(sum(exact(answer, truth) for answer, truth in pairs)),
        "token_f1": sum(token_f1(answer, truth) for answer, truth in pairs),
        "dated": float(sum(mentioned_year(answer)[0] == "dated" for answer, _ in pairs)),
    }
