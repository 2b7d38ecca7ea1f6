"""Optional packages explain themselves."""

import json

import pytest

from evalframe.core.errors import MissingExtraError
from evalframe.core.optional import optional


def test_an_installed_package_is_imported():
    """The caller gets the module itself."""
    assert optional("json", extra="none", needed_by="this test") is json


def test_a_missing_package_says_which_extra_brings_it():
    """The error names who needs it and what to install, and is an ImportError."""
    with pytest.raises(
        MissingExtraError,
        match=r"^Plots needs no_such_package, which is not installed\. "
        r"Run: pip install 'evalframe\[plot\]'$",
    ):
        optional("no_such_package", extra="plot", needed_by="Plots")
