"""What a failure of a provider means."""

import pytest
from pydantic_ai import exceptions as known

from openclaw.models.choose import Candidate
from openclaw.models.failures import Failure, Verdict, classify_error, delay_before


def http(status: int, body: object = None, headers: dict[str, str] | None = None) -> Exception:
    return known.ModelHTTPError(status, "m", body, headers=headers)


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (known.ModelContextWindowExceededError("m", "long"), "overflow"),
        (known.ModelRateLimitError("m", "slow down"), "retry"),
        (known.ModelOverloadedError("m", "busy"), "retry"),
        (known.ModelUnavailableError("m", "down"), "retry"),
        (known.ModelServerError("m", "oops"), "retry"),
        (known.ModelTimeoutError("m", "late"), "retry"),
        (known.ModelRequestTimeout("m", 3.0), "retry"),
        (known.ModelConnectionError("m", "gone"), "retry"),
        (known.UnexpectedModelBehavior("odd"), "retry"),
        (known.ModelAuthenticationError("m", "who?"), "next"),
        (known.ModelQuotaExceededError("m", "broke"), "next"),
        (known.ModelNotFoundError("m", "what?"), "next"),
        (http(408), "retry"),
        (http(502), "retry"),
        (http(400, {"error": {"message": "bad"}}), "next"),
        (http(400, "the request exceeds the available context size"), "overflow"),
        (ValueError("a defect"), "next"),
    ],
)
def test_every_failure_has_its_verdict(error: Exception, verdict: Verdict) -> None:
    assert classify_error(error).verdict is verdict


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "This model's maximum context length is 8192 tokens. However, you requested 9000"),
        (400, "Your input exceeds the context window of this model. Please adjust your input"),
        (429, "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000"),
        (400, "prompt is too long: 208310 tokens > 200000 maximum"),
        (400, "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000"),
        (400, "Input is too long for requested model."),
        (
            400,
            "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        ),
        (
            400,
            "This endpoint's maximum context length is 131072 tokens. However, you requested 150000",
        ),
        (400, "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768"),
        (400, "Please reduce the length of the messages or completion."),
        (
            400,
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        ),
        (400, "the request exceeds the available context size, try increasing it"),
        (400, "exceed_context_size_error"),
        (400, "prompt too long; exceeded max context length by 4 tokens"),
        (500, "the input length exceeds the context length"),
        (400, "The decoder prompt (length 9000) is longer than the maximum model length of 8192"),
        (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096"),
        (
            400,
            "The number of tokens to keep from the initial prompt is greater than the context length",
        ),
        (400, "too many tokens: total number of tokens in the prompt exceeds the limit"),
        (400, "prompt token count of 130000 exceeds the limit of 128000"),
        (400, "context window exceeds limit (2013)"),
        (
            400,
            "Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)",
        ),
        (413, "request_too_large"),
    ],
)
def test_every_vendors_words_for_too_long_are_understood(status: int, words: str) -> None:
    assert classify_error(http(status, {"error": {"message": words}})).verdict == "overflow"


@pytest.mark.parametrize(
    "words",
    [
        "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000",
        "Too many tokens, please wait before trying again.",
        "max_tokens is too large: 100000",
        "Invalid value for 'model'",
    ],
)
def test_other_refusals_are_not_taken_for_it(words: str) -> None:
    assert classify_error(http(429, {"error": {"message": words}})).verdict != "overflow"


def test_only_the_providers_own_failures_count_against_it() -> None:
    for error in (http(400, "bad"), http(422, "bad"), ValueError("a defect")):
        assert classify_error(error).blames_request
    for error in (http(500), http(429), known.ModelAuthenticationError("m", "who?")):
        assert not classify_error(error).blames_request


def test_a_refusal_that_speaks_of_an_image_says_so() -> None:
    assert classify_error(http(400, "Could not process image")).about_images
    assert classify_error(http(413, "")).about_images
    assert not classify_error(http(400, "bad")).about_images


def test_the_reason_has_the_providers_own_words_and_not_the_whole_body() -> None:
    failure = classify_error(
        http(400, {"error": {"message": "no\n such  model", "trace": "x" * 999}})
    )
    assert failure.reason == "it refused the request (HTTP 400: no such model)"
    long = classify_error(http(400, {"message": "y" * 999}))
    assert len(long.reason) < 260


def test_a_failed_connection_names_the_address_to_check() -> None:
    error = known.ModelConnectionError("m", "failed")
    error.__cause__ = OSError("refused")
    asked = Candidate("acme", "m", "openai-completions", base_url="http://box/v1")
    failure = classify_error(error, asked)
    assert failure.reason == "the connection failed (refused)"
    assert failure.hint == "check that http://box/v1 is right and can be reached"


def test_the_wait_grows_and_is_bounded() -> None:
    failure = Failure("retry", "x")
    delays = [delay_before(attempt, failure, 0.5) for attempt in range(1, 10)]
    assert delays[:4] == [0.5, 1.0, 2.0, 4.0]
    assert delays[-1] == 20.0
    assert delay_before(1, failure, 0.0) == 0.375


def test_what_the_provider_asks_for_is_honoured_within_reason() -> None:
    error = known.ModelHTTPError.for_category(
        known.ModelRateLimitError, status_code=429, model_name="m", headers={"Retry-After": "7"}
    )
    assert delay_before(1, classify_error(error), 0.5) == 7.0
    assert delay_before(1, Failure("retry", "x", retry_after=3600), 0.5) is None


@pytest.mark.parametrize(
    ("provider", "key", "hint", "told"),
    [
        (
            "acme",
            "secret://store/ACME_KEY",
            "",
            "models.providers.acme.apiKey (secret://store/ACME_KEY); set it with: openclaw secrets set ACME_KEY",
        ),
        (
            "openai",
            "secret://env/OPENAI_API_KEY",
            "OPENAI_API_KEY",
            "the environment variable OPENAI_API_KEY",
        ),
        ("acme", "secret://vault/a#b", "", "models.providers.acme.apiKey (secret://vault/a#b)"),
        ("acme", "a/plain-key", "", "models.providers.acme.apiKey"),
    ],
)
def test_a_refused_key_is_named_by_its_setting_and_never_shown(
    provider: str, key: str, hint: str, told: str
) -> None:
    asked = Candidate(provider, "m", "openai-completions", api_key=key, key_hint=hint)
    refused = known.ModelAuthenticationError("m", "who?")
    assert classify_error(refused, asked).hint == f"check {told}"
