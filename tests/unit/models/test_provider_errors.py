"""What a failure of a provider means."""

import pytest
from pydantic_ai import exceptions as known

from openclaw.models.stack import Failure, Verdict, delay_before, judge


def http(status: int, body: object = None, headers: dict[str, str] | None = None) -> Exception:
    return known.ModelHTTPError(status, "m", body, headers=headers)


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (known.ModelContextWindowExceededError("m", "long"), Verdict.OVERFLOW),
        (known.ModelRateLimitError("m", "slow down"), Verdict.RETRY),
        (known.ModelOverloadedError("m", "busy"), Verdict.RETRY),
        (known.ModelUnavailableError("m", "down"), Verdict.RETRY),
        (known.ModelServerError("m", "oops"), Verdict.RETRY),
        (known.ModelTimeoutError("m", "late"), Verdict.RETRY),
        (known.ModelRequestTimeout("m", 3.0), Verdict.RETRY),
        (known.ModelConnectionError("m", "gone"), Verdict.RETRY),
        (known.UnexpectedModelBehavior("odd"), Verdict.RETRY),
        (known.ModelAuthenticationError("m", "who?"), Verdict.NEXT),
        (known.ModelQuotaExceededError("m", "broke"), Verdict.NEXT),
        (known.ModelNotFoundError("m", "what?"), Verdict.NEXT),
        (http(408), Verdict.RETRY),
        (http(502), Verdict.RETRY),
        (http(400, {"error": {"message": "bad"}}), Verdict.NEXT),
        (http(400, "the request exceeds the available context size"), Verdict.OVERFLOW),
        (ValueError("a defect"), Verdict.NEXT),
    ],
)
def test_every_failure_has_its_verdict(error: Exception, verdict: Verdict) -> None:
    assert judge(error).verdict is verdict


def test_the_reason_has_the_providers_own_words_and_not_the_whole_body() -> None:
    failure = judge(http(400, {"error": {"message": "no\n such  model", "trace": "x" * 999}}))
    assert failure.reason == "it refused the request (HTTP 400: no such model)"
    long = judge(http(400, {"message": "y" * 999}))
    assert len(long.reason) < 260


def test_a_failed_connection_names_the_address_to_check() -> None:
    error = known.ModelConnectionError("m", "failed")
    error.__cause__ = OSError("refused")
    failure = judge(error, "http://box/v1")
    assert failure.reason == "the connection failed (refused)"
    assert failure.hint == "check that http://box/v1 is right and can be reached"


def test_the_wait_grows_and_is_bounded() -> None:
    failure = Failure(Verdict.RETRY, "x")
    delays = [delay_before(attempt, failure, 0.5) for attempt in range(1, 10)]
    assert delays[:4] == [0.5, 1.0, 2.0, 4.0]
    assert delays[-1] == 20.0
    assert delay_before(1, failure, 0.0) == 0.375


def test_what_the_provider_asks_for_is_honoured_within_reason() -> None:
    error = known.ModelHTTPError.for_category(
        known.ModelRateLimitError, status_code=429, model_name="m", headers={"Retry-After": "7"}
    )
    assert delay_before(1, judge(error), 0.5) == 7.0
    assert delay_before(1, Failure(Verdict.RETRY, "x", retry_after=3600), 0.5) is None
