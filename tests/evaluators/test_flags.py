"""Options that are on or off."""

import pytest

import evalframe as ef

FLAGS = {
    "exact-match-case": (ef.ExactMatch, "ignore_case"),
    "exact-match-space": (ef.ExactMatch, "ignore_whitespace"),
    "exact-match-any": (ef.ExactMatch, "accept_any"),
    "contains": (ef.Contains, "ignore_case"),
    "one-of-case": (lambda **flag: ef.OneOf(["a"], **flag), "ignore_case"),
    "one-of-space": (lambda **flag: ef.OneOf(["a"], **flag), "ignore_whitespace"),
    "regex": (lambda **flag: ef.Regex("a", **flag), "ignore_case"),
    "levenshtein-case": (ef.Levenshtein, "ignore_case"),
    "levenshtein-space": (ef.Levenshtein, "ignore_whitespace"),
    "bleu-case": (ef.Bleu, "ignore_case"),
    "bleu-pooled": (ef.Bleu, "pooled"),
    "chrf": (ef.Chrf, "ignore_case"),
    "rouge": (lambda **flag: ef.Rouge("rouge1", **flag), "ascii_only"),
}
every_flag = pytest.mark.parametrize(("made", "flag"), FLAGS.values(), ids=FLAGS)


@every_flag
@pytest.mark.parametrize("value", ["no", "", 0, 1, None, []], ids=repr)
def test_what_is_no_bool_is_refused_when_built(made, flag, value):
    """The text "no" would switch it on."""
    with pytest.raises(ValueError, match=f"{flag} must be True or False, not "):
        made(**{flag: value})


@every_flag
@pytest.mark.parametrize("value", [True, False])
def test_a_bool_is_kept(made, flag, value):
    """Either of them, and the two make different evaluators."""
    assert made(**{flag: value}) == made(**{flag: value})
    assert made(**{flag: value}) != made(**{flag: not value})
