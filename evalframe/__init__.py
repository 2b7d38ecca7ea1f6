"""Evaluation as columns: a dataframe in, the same dataframe with result columns out.

run_experiment   rows and evaluators in; label, score, explanation, metadata and error out
evaluator, task  decorators for your own functions; Evaluator is the base for classes
df.evals         summary, failures, scores, passed, to_parquet of a scored frame
"""

from evalframe.accessor import EvalsAccessor as _EvalsAccessor  # noqa: F401 - registers df.evals
from evalframe.analysis.explain import explain
from evalframe.analysis.failures import failures
from evalframe.analysis.scores import passed, scores
from evalframe.analysis.summary import summary
from evalframe.analysis.usage import usage
from evalframe.configured import load_experiment
from evalframe.core.errors import (
    CellError,
    ColumnNotFoundError,
    DatasetError,
    EvalframeError,
    ExperimentError,
    JournalError,
    MissingExtraError,
    RunDirError,
    StuckCallsError,
    UnsupportedValueError,
)
from evalframe.core.records import EvaluationResult, skip
from evalframe.data.dataset import Dataset
from evalframe.data.example import ContextChunk, Example
from evalframe.estimate import estimate
from evalframe.evaluators.base import Evaluator
from evalframe.evaluators.bert_score import BertScore
from evalframe.evaluators.config import load_evaluators
from evalframe.evaluators.config_keys import ConfigError
from evalframe.evaluators.custom import CustomEval
from evalframe.evaluators.exact_match import ExactMatch
from evalframe.evaluators.function import evaluator
from evalframe.evaluators.json_diff import JsonDiff
from evalframe.evaluators.judge import LLMJudge
from evalframe.evaluators.match import Contains, OneOf, Regex
from evalframe.evaluators.numeric import NumericClose
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
from evalframe.experiment import arun_experiment, last_run, run_experiment
from evalframe.llm.embedder import Embedder
from evalframe.llm.model import Model
from evalframe.results.parquet import read_parquet, to_parquet
from evalframe.tasks.chat import ChatTask
from evalframe.tasks.task import task

__all__ = [
    "MRR",
    "NDCG",
    "AnswerCorrectness",
    "AnswerRelevancy",
    "BertScore",
    "Bleu",
    "CellError",
    "ChatTask",
    "Chrf",
    "ColumnNotFoundError",
    "ConfigError",
    "Contains",
    "ContextChunk",
    "ContextPrecision",
    "ContextRecall",
    "CustomEval",
    "Dataset",
    "DatasetError",
    "Embedder",
    "EvalframeError",
    "EvaluationResult",
    "Evaluator",
    "ExactMatch",
    "Example",
    "ExperimentError",
    "Faithfulness",
    "Hallucination",
    "HitRate",
    "JournalError",
    "JsonDiff",
    "LLMJudge",
    "Levenshtein",
    "MissingExtraError",
    "Model",
    "NumericClose",
    "OneOf",
    "PrecisionAtK",
    "RecallAtK",
    "Regex",
    "Rouge",
    "RunDirError",
    "SemanticSimilarity",
    "StuckCallsError",
    "TokenF1",
    "ToolCalls",
    "UnsupportedValueError",
    "ValidJSON",
    "arun_experiment",
    "estimate",
    "evaluator",
    "explain",
    "failures",
    "last_run",
    "load_evaluators",
    "load_experiment",
    "passed",
    "read_parquet",
    "run_experiment",
    "scores",
    "skip",
    "summary",
    "task",
    "to_parquet",
    "usage",
]
