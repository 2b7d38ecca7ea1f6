"""Aliases and misspellings."""

import pytest

from evalframe.core.names import canonical, misspelt

ALIASES = {
    "input": ["query", "attributes.input.value"],
    "output": ["actual_output", "generated_output", "experiment_output"],
    "dataset_output": ["expected", "expected_output", "reference", "attributes.output.value"],
    "metadata": ["additional_metadata", "attributes.metadata"],
    "retrieval_context": ["contexts"],
    "dataset_row": ["row"],
}


@pytest.mark.parametrize(
    ("alias", "name"),
    [(alias, name) for name, aliases in ALIASES.items() for alias in aliases],
)
def test_every_alias_stands_for_its_name(alias, name):
    """The aliases are exactly these; none of them changes its meaning."""
    assert canonical(alias) == name


@pytest.mark.parametrize("name", [*ALIASES, "question", "", "Expected"])
def test_any_other_name_stands_for_itself(name):
    """Names are told apart by case, and unknown ones are left alone."""
    assert canonical(name) == name


@pytest.mark.parametrize(
    ("name", "known", "found"),
    [
        pytest.param("outputs", "output", "output", id="letter-too-many"),
        pytest.param("outpt", "output", "output", id="letter-missing"),
        pytest.param("ouptut", "output", "output", id="swap"),
        pytest.param("uotput", "output", "output", id="swap-at-the-start"),
        pytest.param("outptu", "output", "output", id="swap-at-the-end"),
        pytest.param("oztput", "output", "output", id="letter-wrong"),
        pytest.param("output", "output", None, id="the-name-itself"),
        pytest.param("oupttu", "output", None, id="two-swaps"),
        pytest.param("otputs", "output", None, id="two-edits"),
        pytest.param("putout", "output", None, id="far"),
        pytest.param("text", "texts", None, id="name-of-four-letters"),
        pytest.param("textx", "text", None, id="known-of-four-letters"),
    ],
)
def test_a_misspelling_is_one_edit_or_swap_away_of_five_letters_or_more(name, known, found):
    """Short names differ by one letter too easily to be called mistakes."""
    assert misspelt(name, ["zzzzzzzz", known]) == found
