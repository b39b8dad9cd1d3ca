"""No regular expression takes longer than in proportion to the text that it is given."""

import pytest
from tests.support.pattern_growth import Found, growth, patterns_of_the_program

# What filters answers and hides secrets sees every text, of any length.
CHECKED = (
    "openclaw.policy.dataflow.answers",
    "openclaw.policy.dataflow.fenced_code",
    "openclaw.secrets",
)
# Tried at one place, and on no more than a few thousand characters from there.
BOUNDED = ("!?\\[", "\\]\\(")


def test_the_check_knows_a_bad_pattern_from_a_good_one() -> None:
    assert growth(Found("", r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(", 0)) is not None
    assert growth(Found("", r"(a+)+$", 0)) is not None
    assert growth(Found("", r"\w+@", 0)) is not None
    assert growth(Found("", r"\w{1,64}@", 0)) is None
    assert growth(Found("", r"\w+@", 0, searches=False)) is None


@pytest.mark.filterwarnings("ignore")
def test_no_pattern_that_sees_everything_is_slow() -> None:
    checked = [found for found in patterns_of_the_program() if found.where.startswith(CHECKED)]
    assert len(checked) > 60
    slow = {
        found.pattern: growth(found, seconds=1)
        for found in checked
        if not found.pattern.startswith(BOUNDED)
    }
    assert {pattern: worst for pattern, worst in slow.items() if worst is not None} == {}
