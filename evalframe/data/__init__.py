"""Rows in: every source of data becomes a Dataset, columns with roles."""

from evalframe.data.dataset import Dataset
from evalframe.data.example import ContextChunk, Example

__all__ = ["ContextChunk", "Dataset", "Example"]
