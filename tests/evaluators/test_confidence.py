"""How sure a model was: by hand-made tokens, or not at all."""

import math

import pytest

from evalframe.evaluators.confidence import confidence_of

YES_NO = ["yes", "no"]


def token(text, own=1.0, **others):
    """A token with its probability, and those of other tokens at its place."""
    tops = {text: own, **others}
    ranked = [{"token": t, "logprob": math.log(p)} for t, p in tops.items()]
    return {"token": text, "logprob": math.log(own), "top_logprobs": ranked}


def forced(text, own, **others):
    """A token that a grammar chose though it is not among the likeliest."""
    return {**token("?", **others), "token": text, "logprob": own} | {
        "top_logprobs": [{"token": t, "logprob": math.log(p)} for t, p in others.items()]
    }


def plain(*texts):
    """Tokens at which only the probable one is known, as for the frame of an object."""
    return [token(text) for text in texts]


def approx(*numbers):
    """Confidence and coverage, near enough."""
    return pytest.approx(numbers)


def test_confidence_is_the_share_of_the_chosen_label_among_the_labels():
    """0.6 for yes and 0.2 for no: three quarters; the labels held 0.8 of the mass."""
    tokens = [*plain('{"', "label", '":', ' "'), token("yes", 0.6, no=0.2, maybe=0.2), *plain('"}')]

    assert confidence_of("yes", YES_NO, tokens) == approx(0.75, 0.8)


def test_label_that_was_less_probable_has_the_smaller_share():
    """A sampled label may be the less probable one: that is what is told."""
    tokens = [*plain('{"label": "'), token("no", 0.1, yes=0.3), *plain('"}')]

    assert confidence_of("no", YES_NO, tokens) == approx(0.25, 0.4)


def test_label_alone_is_found_without_an_object():
    """As servers answer under a constraint to choices."""
    assert confidence_of("yes", YES_NO, [token("yes", 0.5, no=0.5)]) == approx(0.5, 1.0)
    assert confidence_of("yes", YES_NO, [*plain("\n"), token("yes", 0.5, no=0.5)]) == approx(0.5, 1)


def test_blank_before_the_label_may_be_part_of_its_token():
    """Alternatives with the same blank are compared, others are not the same place."""
    tokens = [token(" yes", 0.4, **{" no": 0.1, "yes": 0.3})]

    assert confidence_of("yes", YES_NO, tokens) == approx(0.8, 0.5)


def test_quote_before_the_label_may_be_part_of_its_token():
    """As tokenisers have it."""
    tokens = [*plain('{"label":'), token(' "yes', 0.6, **{' "no': 0.3, ' "': 0.1}), *plain('"}')]

    assert confidence_of("yes", YES_NO, tokens) == approx(2 / 3, 0.9)


def test_label_of_several_tokens_is_their_product():
    """Only where labels go apart; a beginning that all share tells nothing."""
    labels = ["irrelevant", "irrational"]
    tokens = [
        *plain('{"label": "'),
        token("ir", 0.5, re=0.5),
        token("re", 0.6, ra=0.2, ri=0.2),
        token("levant", 0.9),
        *plain('"}'),
    ]

    assert confidence_of("irrelevant", labels, tokens) == approx(0.75, 0.5 * 0.8)


def test_token_that_begins_several_labels_counts_for_all_of_them():
    """With "in" two of the three are possible; the next token decides between them."""
    labels = ["correct", "incorrect", "incomplete"]
    tokens = [
        *plain('{"label": "'),
        token("in", 0.4, correct=0.4, other=0.2),
        token("correct", 0.3, complete=0.6, x=0.1),
        *plain('"}'),
    ]

    assert confidence_of("incorrect", labels, tokens) == approx(0.5 * (0.3 / 0.9), 0.8)


def test_label_that_begins_another_is_decided_by_its_end():
    """The quote behind "good" is what makes it not "good enough"."""
    labels = ["good", "good enough", "bad"]
    end = '"'
    tokens = [
        *plain('{"label": "'),
        token("good", 0.8, bad=0.2),
        token(end, 0.3, **{" enough": 0.6, "!": 0.1}),
        *plain("}"),
    ]

    assert confidence_of("good", labels, tokens) == approx(0.8 * (0.3 / 0.9), 1.0)


def test_longer_label_is_decided_by_its_going_on():
    """The other side of the same."""
    labels = ["good", "good enough", "bad"]
    tokens = [
        *plain('{"label": "'),
        token("good", 0.8, bad=0.2),
        token(" enough", 0.6, **{'"}': 0.3}),
        *plain('"}'),
    ]

    assert confidence_of("good enough", labels, tokens) == approx(0.8 * (0.6 / 0.9), 1.0)


def test_end_may_be_part_of_the_labels_token():
    """With the quote and what follows it."""
    tokens = [*plain('{"label": "'), token('yes"}', 0.5, **{"no": 0.25, "no!": 0.25})]

    assert confidence_of("yes", YES_NO, tokens) == approx(2 / 3, 0.75)


def test_token_that_only_looks_like_a_label_does_not_count():
    """The token "none" is not "no", and "Yes" is not "yes"."""
    tokens = [*plain('{"label": "'), token("yes", 0.5, none=0.3, Yes=0.2), *plain('"}')]

    assert confidence_of("yes", YES_NO, tokens) == approx(1.0, 0.5)
    assert confidence_of("yes", YES_NO, [token("yes", 0.5, nobody=0.5)]) == approx(1.0, 0.5)


@pytest.mark.parametrize(
    "explanation", ["yes", "It is yes", "yes: it says yes", 'so \\"label\\": \\"yes\\"']
)
@pytest.mark.parametrize("first", ["explanation", "label"])
def test_label_is_found_where_its_key_is(explanation, first):
    """Also if the explanation is, or quotes, the label, before it or after."""
    verdict = [*plain('"label": "'), token("yes", 0.6, no=0.2), *plain('"')]
    said = [*plain('"explanation": "'), token(explanation, 0.9, no=0.1), *plain('"')]
    parts = [verdict, said] if first == "label" else [said, verdict]

    tokens = [*plain("{"), *parts[0], *plain(", "), *parts[1], *plain("}")]

    assert confidence_of("yes", YES_NO, tokens) == approx(0.75, 0.8)


def test_code_fence_is_no_hindrance():
    """Tokens of it are in the list, though the server took it off the reply."""
    tokens = [
        *plain("```", "json", "\n", '{"label": "'),
        token("no", 0.5, yes=0.5),
        *plain('"}', "\n", "```", ""),
    ]

    assert confidence_of("no", YES_NO, tokens) == approx(0.5, 1.0)


def test_forced_token_counts_with_its_own_probability():
    """It may be missing among the likeliest, which are of the model's own wish."""
    log = math.log(0.01)
    tokens = [*plain('{"label": "'), forced("yes", log, no=0.03, The=0.9), *plain('"}')]

    assert confidence_of("yes", YES_NO, tokens) == approx(0.25, 0.04)


def test_forced_token_of_no_probability_tells_nothing():
    """-9999 is "not known", and no share can be told from it."""
    tokens = [*plain('{"label": "'), forced("yes", -9999.0, The=0.9), *plain('"}')]

    assert confidence_of("yes", YES_NO, tokens) is None


def test_label_with_quotes_and_letters_of_all_kinds_is_found():
    """As JSON writes it."""
    labels = ['"é"', "né"]
    tokens = [*plain('{"label": "'), token('\\"', 0.5, n=0.25), *plain("é", '\\"', '"}')]

    assert confidence_of('"é"', labels, tokens) == approx(2 / 3, 0.75)


@pytest.mark.parametrize(
    ("labels", "logprobs"),
    [
        pytest.param(YES_NO, None, id="none-given"),
        pytest.param(YES_NO, [], id="no-tokens"),
        pytest.param(
            YES_NO, [*plain('{"label": "'), {"token": "yes", "logprob": -1.0}], id="no-top"
        ),
        pytest.param(
            YES_NO, [{"token": "yes", "logprob": -1.0, "top_logprobs": []}], id="no-alternatives"
        ),
        pytest.param(
            YES_NO,
            [{"token": "yes", "logprob": -1.0, "top_logprobs": None}],
            id="null-alternatives",
        ),
        pytest.param(
            YES_NO, [{"token": "yes", "logprob": None, "top_logprobs": [{}]}], id="broken"
        ),
        pytest.param(YES_NO, ["yes"], id="no-objects"),
        pytest.param(YES_NO, plain("no"), id="other-label"),
        pytest.param(YES_NO, plain("Yes"), id="other-case"),
        pytest.param(YES_NO, plain('{"label": "no"}'), id="other-label-in-object"),
        pytest.param(YES_NO, plain('{"verdict": "yes"}'), id="other-key"),
        pytest.param(YES_NO, plain('{"label": "yes", "label": "yes"}'), id="two-keys"),
        pytest.param(YES_NO, plain("I say yes"), id="prose"),
        pytest.param(["yes"], plain('{"label": "yes"}'), id="only-label"),
        pytest.param(["yes", "yes sir"], [token("yes", 0.5, no=0.5)], id="may-have-gone-on"),
    ],
)
def test_what_cannot_be_told_is_none(labels, logprobs):
    """Never 1.0, or any other substitute."""
    assert confidence_of("yes", labels, logprobs) is None


def test_shares_of_all_labels_add_up():
    """Whichever had been chosen, at the same probabilities."""
    labels = ["a", "b", "c"]
    odds = {"a": 0.2, "b": 0.05, "c": 0.25}

    shares = [
        confidence_of(
            name, labels, [token(name, odds[name], **{n: p for n, p in odds.items() if n != name})]
        )
        for name in labels
    ]

    assert [share.confidence for share in shares] == pytest.approx([0.4, 0.1, 0.5])
    assert {round(share.coverage, 9) for share in shares} == {0.5}


def test_a_forced_token_beside_labels_of_unknown_probability_tells_nothing():
    """Its own probability is all there is: certainty would be a substitute for a measurement."""
    tokens = [*plain('{"label": "'), forced("yes", -12.0, The=0.9), *plain('"}')]

    assert confidence_of("yes", ["yes", "no"], tokens) is None
