"""Tools as real servers declare them, and short ways to write a conversation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from openclaw.policy.dataflow.check import Call, origin_of
from openclaw.policy.dataflow.effects import Tool
from openclaw.policy.dataflow.rules import FlowRules
from openclaw.policy.dataflow.text_index import PERSON, Index, SeenText, TextOrigin

STRING: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "number"}
STRINGS: dict[str, Any] = {"type": "array", "items": STRING}


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _tool(
    server: str,
    name: str,
    claims: tuple[bool | None, bool | None] = (None, None),
    /,
    **properties: Any,
) -> Tool:
    return Tool(server, name, schema(**properties), *claims)


TOOLS: dict[str, Tool] = {
    f"{tool.server}.{tool.name}": tool
    for tool in (
        _tool("mail", "search_emails", query=STRING, sender=STRING),
        _tool("mail", "list_emails", folder=STRING),
        _tool("mail", "read_email", message_id=STRING),
        _tool(
            "mail",
            "send_email",
            to=STRINGS,
            subject=STRING,
            body=STRING,
            cc=STRINGS,
            attachments=STRINGS,
        ),
        _tool("mail", "reply_to_email", message_id=STRING, body=STRING),
        _tool("mail", "draft_email", to=STRINGS, subject=STRING, body=STRING),
        _tool("mail", "delete_email", message_id=STRING),
        _tool("mail", "archive_email", message_id=STRING),
        _tool("mail", "mark_as_read", message_id=STRING),
        _tool("mail", "label_email", message_id=STRING, label=STRING),
        _tool("mail", "create_filter", criteria=STRING, forward_to=STRING),
        _tool("contacts", "search_contacts", query=STRING),
        _tool("contacts", "create_contact", name=STRING, email=STRING, phone=STRING),
        _tool("calendar", "list_events", start=STRING, end=STRING),
        _tool(
            "calendar",
            "create_event",
            title=STRING,
            start=STRING,
            end=STRING,
            location=STRING,
            description=STRING,
            attendees=STRINGS,
        ),
        _tool("calendar", "update_event", event_id=STRING, start=STRING, end=STRING, title=STRING),
        _tool("calendar", "delete_event", event_id=STRING),
        _tool("fs", "read_text_file", path=STRING),
        _tool("fs", "list_directory", path=STRING),
        _tool("fs", "search_files", path=STRING, pattern=STRING),
        _tool(
            "fs",
            "write_file",
            (False, True),
            path=STRING,
            content=STRING,
        ),
        _tool(
            "fs",
            "edit_file",
            (False, True),
            path=STRING,
            edits={"type": "array", "items": schema(oldText=STRING, newText=STRING)},
        ),
        _tool("fs", "move_file", source=STRING, destination=STRING),
        _tool("fs", "delete_file", path=STRING),
        _tool("fs", "create_directory", path=STRING),
        _tool("web", "fetch", url={"type": "string", "format": "uri"}, max_length=NUMBER),
        _tool("web", "web_search", query=STRING),
        _tool(
            "web",
            "http_request",
            url=STRING,
            method=STRING,
            body=STRING,
            headers={"type": "object"},
        ),
        _tool("github", "list_issues", owner=STRING, repo=STRING, state=STRING),
        _tool("github", "get_issue", owner=STRING, repo=STRING, issue_number=NUMBER),
        _tool("github", "get_file_contents", owner=STRING, repo=STRING, path=STRING),
        _tool(
            "github",
            "create_issue",
            owner=STRING,
            repo=STRING,
            title=STRING,
            body=STRING,
            labels=STRINGS,
        ),
        _tool(
            "github",
            "add_issue_comment",
            owner=STRING,
            repo=STRING,
            issue_number=NUMBER,
            body=STRING,
        ),
        _tool(
            "github", "update_issue", owner=STRING, repo=STRING, issue_number=NUMBER, state=STRING
        ),
        _tool(
            "github",
            "create_pull_request",
            owner=STRING,
            repo=STRING,
            title=STRING,
            body=STRING,
            head=STRING,
            base=STRING,
        ),
        _tool("github", "delete_repository", owner=STRING, repo=STRING),
        _tool(
            "github",
            "add_collaborator",
            owner=STRING,
            repo=STRING,
            username=STRING,
            permission=STRING,
        ),
        _tool("slack", "list_channels"),
        _tool("slack", "read_channel", channel=STRING),
        _tool("slack", "post_message", channel=STRING, text=STRING),
        _tool("slack", "send_direct_message", user=STRING, text=STRING),
        _tool("bank", "list_transactions", n=NUMBER),
        _tool("bank", "send_money", recipient=STRING, amount=NUMBER, subject=STRING, date=STRING),
        _tool("bank", "update_standing_order", id=NUMBER, recipient=STRING, amount=NUMBER),
        _tool("bank", "update_password", password=STRING),
        _tool("drive", "list_files", folder=STRING),
        _tool("drive", "get_file", file_id=STRING),
        _tool("drive", "create_file", filename=STRING, content=STRING),
        _tool("drive", "append_to_file", file_id=STRING, content=STRING),
        _tool("drive", "share_file", file_id=STRING, email=STRING, permission=STRING),
        _tool("drive", "delete_file", file_id=STRING),
        _tool("notes", "search_notes", query=STRING),
        _tool("notes", "create_note", title=STRING, content=STRING),
        _tool("notes", "append_note", note_id=STRING, content=STRING),
        _tool("todo", "list_tasks", project=STRING),
        _tool("todo", "add_task", title=STRING, due=STRING, project=STRING),
        _tool("todo", "complete_task", task_id=STRING),
        _tool("shop", "search_products", query=STRING),
        _tool("shop", "add_to_cart", product_id=STRING, quantity=NUMBER),
        _tool("shop", "place_order", cart_id=STRING, address=STRING),
        _tool("home", "get_states"),
        _tool("home", "set_light", entity_id=STRING, state=STRING, brightness=NUMBER),
        _tool("home", "unlock_door", entity_id=STRING),
        _tool("sql", "read_query", (True, None), query=STRING),
        _tool("sql", "write_query", query=STRING),
        _tool("travel", "search_hotels", city=STRING),
        _tool("travel", "reserve_hotel", hotel=STRING, start_day=STRING, end_day=STRING),
        _tool("native", "exec", command=STRING),
        _tool("native", "memory_save", text=STRING),
        _tool("browser", "browser_navigate", url=STRING),
        _tool("browser", "browser_type", element=STRING, ref=STRING, text=STRING),
        _tool("weather", "get_weather", city=STRING),
    )
}


def call(name: str, /, **arguments: Any) -> Call:
    return Call(TOOLS[name], arguments)


def said(text: str) -> SeenText:
    return SeenText(PERSON, text)


def result(
    of: Call, text: str = "", structured: object = None, rules: FlowRules | None = None
) -> SeenText:
    """What a call returned, with the origin that the product would give it."""
    import json

    body = text or json.dumps(structured, ensure_ascii=False)
    return SeenText(origin_of(of, rules or FlowRules()), body, structured, of.arguments)


def from_origin(origin: TextOrigin, text: str, structured: object = None) -> SeenText:
    return SeenText(origin, text, structured)


def indexed(*texts: SeenText) -> Index:
    index = Index()
    for text in texts:
        index.add(text)
    return index


@dataclass(frozen=True)
class Step:
    """A call of an honest session and what it returned."""

    call: Call
    text: str = ""
    structured: object = None


@dataclass(frozen=True)
class Honest:
    """One honest session: what the person said, then calls; a string between calls is the person again."""

    name: str
    script: Sequence[str | Step]
    trusted: Mapping[str, bool] = field(default_factory=dict[str, bool])
