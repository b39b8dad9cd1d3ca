"""Bodies are read by the models that the OpenAPI document is made from."""

from typing import Any, cast

import pytest
from starlette.requests import Request

from openclaw.core.errors import InvalidRequest
from openclaw.gateway import http_server  # has all routes, which the document describes
from openclaw.gateway.api.openapi import OPERATIONS, Message, QuestionAnswer, json_body, validated

PIN_NAMES = next(one.body for one in OPERATIONS if one.handler.__name__ == "accept_pins")


@pytest.mark.parametrize(
    ("model", "body", "problem"),
    [
        (Message, {"text": 5}, "text: has to be a string"),
        (Message, {"stream": "yes"}, "stream: has to be true or false"),
        (Message, {"media": "x"}, "media: has to be a list"),
        (Message, {"media": ["x"]}, "media[0]: has to be an object"),
        (Message, {"media": [{"data": "eA=="}]}, "media[0].mimeType: is missing"),
        (QuestionAnswer, {"action": "maybe"}, "action: has to be one of 'accept', 'decline', "),
        (QuestionAnswer, {"action": "accept", "content": []}, "content: has to be an object"),
        (PIN_NAMES, {"names": [1]}, "names[0]: has to be a string"),
    ],
)
def test_the_first_field_that_is_wrong_is_named(model: Any, body: Any, problem: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        validated(model, body)
    assert str(refused.value).startswith(problem)


@pytest.mark.parametrize(
    ("kind", "body", "problem"),
    [
        ("text/plain", b"{}", "has to be application/json"),
        ("", b"{}", "has to be application/json"),
        ("application/jsonp", b"{}", "has to be application/json"),
        ("application/json", b"[]", "is not a JSON object"),
        ("application/json", b"null", "is not a JSON object"),
        ("application/json", b"{", "is not JSON"),
    ],
)
async def test_a_body_that_is_no_json_object_or_does_not_say_that_it_is_json_is_refused(
    kind: str, body: bytes, problem: str
) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        await json_body(request(kind, body))
    assert await json_body(request("Application/JSON; charset=utf-8", b'{"a": 1}')) == {"a": 1}


def request(kind: str, body: bytes) -> Request:
    async def receive() -> Any:
        return {"type": "http.request", "body": body}

    headers = [(b"content-type", kind.encode())] if kind else []
    return Request({"type": "http", "headers": headers}, receive)


def test_null_is_as_good_as_leaving_a_field_out() -> None:
    left_out = validated(Message, {"text": "x"})
    assert (
        validated(Message, {"text": "x", "stream": None, "media": None, "agent": None}) == left_out
    )


def test_one_attachment_needs_no_list_and_keeps_what_we_do_not_know() -> None:
    (media,) = validated(Message, {"media": {"mimeType": "text/plain", "note": "n"}}).media
    assert media.model_dump(by_alias=True)["note"] == "n"


def test_every_reference_in_the_document_is_defined_in_it() -> None:
    made = http_server.document("http://127.0.0.1:1")
    defined = {f"#/components/schemas/{name}" for name in made["components"]["schemas"]}
    assert _references(made) == defined
    fields = made["components"]["schemas"]["Message"]["properties"]
    assert set(fields) == {field.alias for field in Message.model_fields.values()}


def _references(value: Any) -> set[str]:
    if isinstance(value, list):
        return set[str]().union(*map(_references, cast("list[Any]", value)))
    if not isinstance(value, dict):
        return set()
    held = cast("dict[str, Any]", value)
    own: set[str] = {held["$ref"]} if "$ref" in held else set()
    return own.union(*map(_references, held.values()))
