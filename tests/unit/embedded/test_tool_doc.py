from typing import Any

import pytest

from openclaw.embedded.tool_doc import Param, Want, read_params


def param(name: str, schema: Any, tool: str = "tool") -> Param:
    return read_params({"properties": {name: schema}, "required": [name]}, tool)[0]


@pytest.mark.parametrize(
    ("name", "schema", "want"),
    [
        ("url", {"type": "string"}, "url"),
        ("where", {"type": "string", "format": "uri"}, "url"),
        ("timezone", {"type": "string"}, "zone"),
        ("where", {"type": "string", "description": "IANA name"}, "zone"),
        ("time", {"type": "string", "description": "HH:MM in a timezone"}, "time"),
        ("start_timestamp", {"type": "string"}, "date"),
        ("repo_path", {"type": "string"}, "path"),
        ("pattern", {"type": "string"}, "glob"),
        ("pattern", {"type": "string", "description": "A regular expression"}, "query"),
        ("what", {"type": "string", "description": "a glob"}, "glob"),
        ("query", {"type": "string"}, "query"),
        ("city", {"type": "string"}, "place"),
        ("command", {"type": "string"}, "command"),
        ("to_email", {"type": "string"}, "email"),
        ("revision", {"type": "string"}, "ref"),
        ("count", {"type": "integer"}, "number"),
        ("deep", {"type": "boolean"}, "flag"),
        ("options", {"type": "object"}, "other"),
        ("excludePatterns", {"type": "array", "items": {"type": "string"}}, "other"),
        ("sort", {"enum": ["a", "b"]}, "choice"),
        ("branch_type", {"type": "string", "description": "'local' or 'remote'"}, "text"),
        ("message", {"type": "string"}, "text"),
        ("anything", True, "text"),
        ("path", {"anyOf": [{"type": "string"}, {"type": "null"}]}, "path"),
        ("size", {"type": ["integer", "null"]}, "number"),
        ("size", {"type": ["integer", "string"]}, "number"),
    ],
)
def test_what_a_parameter_wants_is_read_from_its_schema(name: str, schema: Any, want: Want) -> None:
    assert param(name, schema).want == want


def test_a_target_is_a_branch_where_the_tool_speaks_of_branches() -> None:
    assert param("target", {"type": "string"}, "diff between branches").want == "ref"
    assert param("target", {"type": "string"}, "hit").want == "text"


def test_the_kind_of_path_is_told_by_the_parameter_or_the_tool() -> None:
    text = {"type": "string"}
    assert param("repo_path", text).role == "repository"
    assert param("directory", text).role == "directory"
    assert param("path", text, "list directory").role == "directory"
    assert param("path", text, "read file").role == "file"
    assert param("path", text, "look").role == "any"


def test_a_list_of_paths_is_a_list() -> None:
    found = param("paths", {"type": "array", "items": {"type": "string"}})
    assert found.is_list
    assert found.want == "path"


def test_a_default_is_in_the_schema_or_in_words() -> None:
    said = param(
        "timezone", {"type": "string", "description": "Use 'UTC' as local zone if no zone"}
    )
    assert said.default == "UTC"
    assert param("count", {"type": "integer", "default": 10}).default == 10


def test_options_that_a_description_quotes_are_choices() -> None:
    quoted = param("branch_type", {"type": "string", "description": "'local' or 'remote'"})
    assert quoted.choices == ("local", "remote")


def test_a_schema_that_is_no_schema_has_no_parameters() -> None:
    assert read_params({}, "x") == ()
    assert read_params({"properties": "nonsense", "required": 3}, "x") == ()
