"""Claims: conditions and texts on small examples, and every verdict of the committed results."""

import json

import pytest

from ngem.repro import runner, spec
from ngem.repro.claims import Numbers, is_met, judge
from ngem.repro.reproduce import COMMITTED
from ngem.repro.store import Results

NUMBERS = {"a": 1.0, "b": 2.0, "name": "x + y", "unknown": None}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a < b", True),
        ("a > b", False),
        ("a <= 1", True),
        ("a >= 1.0", True),
        ("a < 1", False),
        ("b >= 2 * a", True),
        ("b > 2 * a", False),
        ("a >= b - 1", True),
        ("a >= b - 0.999", False),
        ("a > -1 * b", True),
        ("b < 1.5 * a + 0.6", True),
        ("name in x, x + y", True),
        ("name in x, y", False),
        ("unknown < 5", False),
        ("unknown >= 5", False),
    ],
)
def test_conditions(condition, expected):
    assert is_met(condition, NUMBERS) is expected


@pytest.mark.parametrize("condition", ["a", "a = b", "a < b < c", "a < b * 2", "1 + a < b"])
def test_what_is_no_condition_is_refused(condition):
    with pytest.raises(ValueError, match="a condition must read like"):
        is_met(condition, NUMBERS)


def test_a_condition_on_a_number_that_is_none_is_an_error():
    with pytest.raises(ValueError, match="could not convert"):
        is_met("a < beta", NUMBERS)


def test_numbers_are_joined_and_missing_ones_named():
    assert f"{Numbers([1, None, 0.5]):.2f}" == "1.00, not shown, 0.50"


SPEC = """
title = "t"
experiment = "one_gaussian"
reading = "r"
[settings]
rates = [1, 2, 3]
[paper]
figures = [
  { method = "ngem-listing", rate = 1, score = [10.0, 0.5] },
  { method = "ngem-listing", rate = 2, score = [20.0, 0.5] },
]
[[claims]]
"""


@pytest.fixture(name="results")
def _results(tmp_path):
    """Scores: rate times seed for "ngem", 2 for "nll", which diverges at the rate 3."""
    results = Results(tmp_path / "results.json", settings={}, budget="full")
    for rate in (1, 2, 3):
        for seed in (1, 2):
            results.add({"method": "ngem", "rate": rate, "seed": seed}, {"score": rate * seed}, 0.0)
            result = {"score": 2} if rate < 3 else {"diverged": "overflow"}
            results.add({"method": "nll", "rate": rate, "seed": seed}, result, 0.0)
    return results


def claims(text, results):
    return judge(spec.parse("x", SPEC + text, "full"), results)


def test_each_makes_claims_and_over_makes_cases(results):
    made = claims(
        """
        text = "{method} at {rate}"
        each = { method = ["ngem", "nll"], rate = [1, 2] }
        values.mean = { of = "score" }
        all = ["mean >= 2"]
        required = "2"
        ours = "{mean:.1f}"
        """,
        results,
    )
    assert [claim.text for claim in made] == ["ngem at 1", "ngem at 2", "nll at 1", "nll at 2"]
    assert [claim.ours for claim in made] == ["1.5", "3.0", "2.0", "2.0"]
    assert [claim.holds for claim in made] == [False, True, True, True]


@pytest.mark.parametrize(
    "value", ['of = "socre"', 'of = "score", method = "nlll"', 'of = "score", methd = "nll"']
)
def test_misspelled_names_are_refused(results, value):
    text = f"values.a = {{ {value} }}\ntext = 't'\nall = ['a < 1']\nrequired = ''\nours = ''"
    with pytest.raises(ValueError, match="a claim must be about runs that exist"):
        claims(text, results)


CASES = """
text = "t"
over.rate = "rates"
values.ours = { of = "score", method = "ngem" }
values.base = { of = "score", method = "nll" }
all = ["ours < base"]
lists.won = { if = ["ours < base"], label = "rate {rate}" }
"""


def test_a_run_that_diverged_is_worse_than_any(results):
    (claim,) = claims(CASES + 'required = "{needed}"\nours = "{held} of {cases}: {won}"', results)
    assert claim == ("t", "3", "2 of 3: rate 1, rate 3", False)


@pytest.mark.parametrize(("at_least", "needed"), [("1", 3), ("2/3", 2), ("1/2", 2), ("1/3", 1)])
def test_a_fraction_of_cases_may_be_enough(results, at_least, needed):
    text = f'at_least = "{at_least}"\nrequired = "{{needed}}"\nours = "{{won.n}}"'
    (claim,) = claims(CASES + text, results)
    assert claim.paper == str(needed)
    assert claim.holds == (needed <= 2)


def test_exceptions_are_shown_and_not_judged(results):
    text = 'except.rate = 2\nrequired = "{judged}"\nours = "{held} of {judged}, {won.n}, {cases}"'
    (claim,) = claims(CASES + text, results)
    assert claim == ("t", "2", "2 of 2, 2, 3", True)


def test_the_papers_figures_stand_beside_both_of_ours_and_gaps_are_named(results):
    (claim,) = claims(CASES + 'paper = "{ours:g} / {base:g}"\nours = "{ours:g}"', results)
    gap = "not shown"
    assert claim.paper == f"10, 20, {gap} / {gap}, {gap}, {gap}"


def test_pairs_and_ratios(results):
    (claim,) = claims(
        """
        text = "t"
        each.method = ["ngem"]
        over.rate = [1, 2]
        values.gain = { statistic = "mean difference", of = "score", against.method = "nll" }
        values.error = { statistic = "standard error", of = "score", against.method = "nll" }
        values.per_rate = { statistic = "median", of = "score", per = "rate" }
        all = ["gain < error"]
        required = ""
        ours = "{gain:g}; {error:g}; {per_rate:g}"
        """,
        results,
    )
    assert claim.ours == "-0.5, 1; 0.5, 1; 1.5, 1.5"
    assert not claim.holds


def test_the_best_group_is_named(results):
    (claim,) = claims(
        """
        text = "t"
        over.rate = "rates"
        values.best = { of = "score", best_by = ["method"] }
        values.other = { of = "score", best_by = ["method"], except.method = "ngem" }
        any = ["best in ngem, sgem", "other in ngem"]
        at_least = "2/3"
        required = ""
        ours = "{best}; {other}"
        """,
        results,
    )
    assert claim.ours == "ngem, nll, ngem; nll, nll, nll"
    assert claim.holds


def test_cases_that_are_not_run_yet_are_named_and_do_not_hold(results):
    text = """
        text = "{method}"
        each.method = ["ngem"]
        over.rate = [1, 2, 4]
        values.gain = { statistic = "mean difference", of = "score", against.method = "nll" }
        all = ["gain < 2"]
        at_least = "2/3"
        lists.each = { label = "{rate} {gain:+.1f}" }
        required = "{needed} of {cases}"
        ours = "{held}: {each}"
        """
    with pytest.raises(ValueError, match="runs that exist"):
        claims(text, results)
    results.is_complete = False
    (claim,) = claims(text, results)
    assert claim.ours == "2: 1 -0.5, 2 +1.0; not run: 4"
    assert claim.holds
    (claim,) = claims(text.replace('at_least = "2/3"', ""), results)
    assert not claim.holds
    (claim,) = claims(text.replace("[1, 2, 4]", "[4]"), results)
    assert (claim.ours, claim.holds) == ("not run: 4", False)


@pytest.mark.parametrize("name", spec.ids())
def test_committed_verdicts_follow_from_the_committed_runs(name, request):
    """Every claim is judged anew from `results.json`; texts, figures and verdicts must agree."""
    root = request.config.rootpath / COMMITTED
    loaded = spec.load(name)
    results = runner.saved_results(loaded, root)
    saved = json.loads((root / name / "claims.json").read_text())
    assert [claim._asdict() for claim in judge(loaded, results)] == saved["claims"]
