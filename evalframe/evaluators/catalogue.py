"""The built-in evaluators, described by what their classes declare.

BUILT_IN    the classes, family by family
Entry       one of them: what it reads, gives, takes and needs
markdown    all of them as a table
"""

from __future__ import annotations

import inspect
from typing import NamedTuple

from evalframe.evaluators.asking import Judge
from evalframe.evaluators.base import Evaluator
from evalframe.evaluators.bert_score import BertScore
from evalframe.evaluators.custom import CustomEval
from evalframe.evaluators.exact_match import ExactMatch
from evalframe.evaluators.json_diff import JsonDiff
from evalframe.evaluators.judge import LLMJudge
from evalframe.evaluators.match import Contains, OneOf, Regex
from evalframe.evaluators.numeric import NumericClose
from evalframe.evaluators.rag import RagJudge
from evalframe.evaluators.rag_contexts import ContextPrecision, Hallucination
from evalframe.evaluators.rag_statements import (
    AnswerCorrectness,
    AnswerRelevancy,
    ContextRecall,
    Faithfulness,
)
from evalframe.evaluators.retrieval import MRR, NDCG, HitRate, PrecisionAtK, RecallAtK
from evalframe.evaluators.rouge import Rouge
from evalframe.evaluators.similarity import SemanticSimilarity
from evalframe.evaluators.text import Bleu, Chrf, Levenshtein, TokenF1
from evalframe.evaluators.tools import ToolCalls
from evalframe.evaluators.valid_json import ValidJSON

BUILT_IN: tuple[type[Evaluator], ...] = (
    *(ExactMatch, Contains, Regex, OneOf, NumericClose, ValidJSON),
    *(JsonDiff, ToolCalls),
    *(TokenF1, Levenshtein, Rouge, Bleu, Chrf),
    *(PrecisionAtK, RecallAtK, MRR, NDCG, HitRate),
    *(SemanticSimilarity, BertScore),
    *(ContextPrecision, ContextRecall, Faithfulness, Hallucination),
    *(AnswerCorrectness, AnswerRelevancy, CustomEval, LLMJudge),
)

# Every evaluator takes these: they are no options of its own.
_COMMON = ("self", "name", "threshold", "direction", "score_range", "version")
_BY_PROMPT = "the fields of its prompt"
_HEAD = ("evaluator", "reads", "gives", "options", "extra", "source")


class Entry(NamedTuple):
    """A built-in evaluator.

    Attributes:
        name: Its class.
        reads: Names that are bound to columns, of which those in brackets need not be there;
            none of a judge that reads what its prompt reads.
        gives: Parts of its cells, and its extras.
        options: Arguments of its own, in order.
        extra: What has to be installed for it, or "".
        source: Where its formula is from.
    """

    name: str
    reads: tuple[str, ...]
    gives: tuple[str, ...]
    options: tuple[str, ...]
    extra: str
    source: str


def entry(cls: type[Evaluator]) -> Entry:
    """What a class declares."""
    options = [name for name in inspect.signature(cls.__init__).parameters if name not in _COMMON]
    gives = (*cls.gives, *cls.extras)
    return Entry(cls.__name__, _reads(cls), gives, tuple(options), cls.extra_needed, cls.source)


def _reads(cls: type[Evaluator]) -> tuple[str, ...]:
    if issubclass(cls, RagJudge):
        contexts = () if cls.contexts is None else (cls.contexts,)
        return (*cls.reads, *contexts, *(f"[{name}]" for name in cls.may_read))
    if issubclass(cls, Judge):
        return ()
    parameters = list(inspect.signature(cls.evaluate).parameters.values())[1:]
    return tuple(p.name if p.default is p.empty else f"[{p.name}]" for p in parameters)


def markdown() -> str:
    """All of them as a Markdown table."""
    rows = [_HEAD, tuple("---" for _ in _HEAD)]
    for cls in BUILT_IN:
        found = entry(cls)
        reads = _listed(found.reads) or _BY_PROMPT
        lists = (reads, _listed(found.gives), _listed(found.options))
        rows.append((_code(found.name), *lists, _code(found.extra), found.source))
    return "\n".join(f"|{'|'.join(map(_padded, row))}|" for row in rows)


def _padded(text: str) -> str:
    return f" {text} " if text else " "


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(_code, names))


def _code(name: str) -> str:
    return f"`{name}`" if name else ""
