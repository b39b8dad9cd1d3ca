from typing import Any

import pytest

from openclaw.embedded.tool_doc import Param, Role, Want, read_params


def param(name: str, schema: Any, tool: str = "tool") -> Param:
    return read_params({"properties": {name: schema}, "required": [name]}, tool)[0]


@pytest.mark.parametrize(
    ("name", "schema", "want"),
    [
        ("url", {"type": "string"}, Want.URL),
        ("where", {"type": "string", "format": "uri"}, Want.URL),
        ("timezone", {"type": "string"}, Want.ZONE),
        ("where", {"type": "string", "description": "IANA name"}, Want.ZONE),
        ("time", {"type": "string", "description": "in a timezone"}, Want.TIME),
        ("start_timestamp", {"type": "string"}, Want.DATE),
        ("repo_path", {"type": "string"}, Want.PATH),
        ("pattern", {"type": "string"}, Want.GLOB),
        ("pattern", {"type": "string", "description": "A regular expression"}, Want.QUERY),
        ("what", {"type": "string", "description": "a glob"}, Want.GLOB),
        ("query", {"type": "string"}, Want.QUERY),
        ("city", {"type": "string"}, Want.PLACE),
        ("command", {"type": "string"}, Want.COMMAND),
        ("to_email", {"type": "string"}, Want.EMAIL),
        ("revision", {"type": "string"}, Want.REF),
        ("count", {"type": "integer"}, Want.NUMBER),
        ("deep", {"type": "boolean"}, Want.FLAG),
        ("options", {"type": "object"}, Want.OTHER),
        ("excludePatterns", {"type": "array", "items": {"type": "string"}}, Want.OTHER),
        ("sort", {"enum": ["a", "b"]}, Want.CHOICE),
        ("branch_type", {"type": "string", "description": "'local' or 'remote'"}, Want.CHOICE),
        ("message", {"type": "string"}, Want.TEXT),
        ("anything", True, Want.TEXT),
        ("path", {"anyOf": [{"type": "string"}, {"type": "null"}]}, Want.PATH),
        ("size", {"type": ["integer", "null"]}, Want.NUMBER),
        ("size", {"type": ["integer", "string"]}, Want.TEXT),
    ],
)
def test_what_a_parameter_wants_is_read_from_its_schema(name: str, schema: Any, want: Want) -> None:
    assert param(name, schema).want is want


def test_a_target_is_a_branch_where_the_tool_speaks_of_branches() -> None:
    assert param("target", {"type": "string"}, "diff between branches").want is Want.REF
    assert param("target", {"type": "string"}, "hit").want is Want.TEXT


def test_the_kind_of_path_is_told_by_the_parameter_or_the_tool() -> None:
    text = {"type": "string"}
    assert param("repo_path", text).role is Role.REPOSITORY
    assert param("directory", text).role is Role.DIRECTORY
    assert param("path", text, "list directory").role is Role.DIRECTORY
    assert param("path", text, "read file").role is Role.FILE
    assert param("path", text, "look").role is Role.ANY


def test_a_list_of_paths_is_a_list() -> None:
    found = param("paths", {"type": "array", "items": {"type": "string"}})
    assert found.is_list
    assert found.want is Want.PATH


def test_a_default_in_words_must_be_sent_and_one_in_the_schema_need_not() -> None:
    said = param(
        "timezone", {"type": "string", "description": "Use 'UTC' as local zone if no zone"}
    )
    assert (said.default, said.must_send_default) == ("UTC", True)
    plain = param("count", {"type": "integer", "default": 10})
    assert (plain.default, plain.has_default, plain.must_send_default) == (10, True, False)


def test_a_schema_that_is_no_schema_has_no_parameters() -> None:
    assert read_params({}, "x") == ()
    assert read_params({"properties": "nonsense", "required": 3}, "x") == ()
