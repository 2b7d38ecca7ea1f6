"""What is wrong with the content of a file; files.py adds which file."""

from __future__ import annotations


class BadFileError(Exception):
    """The content of a file cannot be read; the message says where and why."""
