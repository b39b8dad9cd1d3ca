"""What a group of errors comes down to."""

import pytest

from openclaw.core.errors import InvalidRequest, NotFound, cause_of, leaves

OURS, OTHER = NotFound("gone"), InvalidRequest("bad")
DEFECT = KeyError("defect")


def test_an_error_that_is_no_group_is_its_own_cause() -> None:
    assert cause_of(OURS) is OURS
    assert cause_of(DEFECT) is DEFECT


def test_a_group_stands_for_the_one_error_in_it_however_deep() -> None:
    group = ExceptionGroup("outer", [ExceptionGroup("inner", [OURS])])
    assert list(leaves(group)) == [OURS]
    assert cause_of(group) is OURS


def test_of_several_errors_of_ours_the_first_is_told() -> None:
    assert cause_of(ExceptionGroup("both", [OURS, OTHER])) is OURS


def test_a_defect_beside_errors_of_ours_is_not_hidden() -> None:
    group = ExceptionGroup("both", [OURS, DEFECT])
    assert cause_of(group) is group


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), SystemExit(3)])
def test_a_wish_to_stop_counts_for_more_than_any_error(stop: BaseException) -> None:
    assert cause_of(BaseExceptionGroup("all", [DEFECT, stop, OURS])) is stop
