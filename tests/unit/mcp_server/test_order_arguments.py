from typing import Any

import pytest

from openclaw.core.errors import InvalidRequest
from openclaw.mcp_server.order_tool import ORDER_CLAWDBOT, ORDER_OPENCLAW
from openclaw.mcp_server.orders import checked_order

SCHEMA = ORDER_OPENCLAW["inputSchema"]


def test_a_plain_order_is_its_message() -> None:
    assert checked_order(SCHEMA, {"message": " hi\t"}) == {"message": " hi\t"}


def test_of_an_order_with_everything_only_what_the_schema_knows_is_read() -> None:
    known: dict[str, Any] = {
        "message": "look",
        "sessionKey": "k",
        "images": [{"data": "AA==", "mimeType": "image/png"}],
        "files": [{"data": "AA==", "mimeType": "text/plain", "filename": "a.txt"}],
    }
    assert checked_order(SCHEMA, {**known, "somethingElse": 1}) == known


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (None, "message: is required"),
        ({}, "message: is required"),
        ({"message": 5}, "message: must be a string, not a number"),
        ({"message": None}, "message: must be a string, not null"),
        ({"message": True}, "message: must be a string, not a boolean"),
        ({"message": ["a"]}, "message: must be a string, not an array"),
        ({"message": {}}, "message: must be a string, not an object"),
        ({"message": " \n"}, "message: is empty"),
        ({"message": "x", "sessionKey": ""}, "sessionKey: must be 1 to 512 characters long, not 0"),
        (
            {"message": "x", "sessionKey": "k" * 513},
            "sessionKey: must be 1 to 512 characters long, not 513",
        ),
        ({"message": "x", "images": "AA"}, "images: must be an array, not a string"),
        ({"message": "x", "images": ["AA"]}, "images[0]: must be an object, not a string"),
        ({"message": "x", "images": [{"data": "AA"}]}, "images[0].mimeType: is required"),
        (
            {"message": "x", "files": [{"data": 1, "mimeType": "text/plain"}]},
            "files[0].data: must be a string, not a number",
        ),
    ],
)
def test_a_wrong_argument_is_named_by_its_path(arguments: Any, message: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        checked_order(SCHEMA, arguments)
    assert str(refused.value) == message


def test_what_a_tool_does_not_take_is_ignored_whatever_it_is() -> None:
    order = checked_order(
        ORDER_CLAWDBOT["inputSchema"], {"message": "hi", "images": [{}], "files": 7}
    )
    assert order == {"message": "hi"}
