from dataclasses import replace

from tests.unit.discovery.catalogue import TOOLS

from openclaw.discovery.stems import (
    ENUM_VALUES,
    PARAMETERS,
    ToolDocument,
    catalogue_hash,
    digest,
    parameters,
)


def test_the_order_of_tools_does_not_change_the_hash() -> None:
    assert catalogue_hash(TOOLS) == catalogue_hash(TOOLS[::-1])


def test_a_changed_parameter_description_changes_the_hash() -> None:
    schema = {"properties": {"title": {"description": "Another title"}}}
    changed = (replace(TOOLS[0], schema=schema), *TOOLS[1:])
    assert catalogue_hash(changed) != catalogue_hash(TOOLS)


def test_a_schema_without_an_end_has_a_digest_that_changes_with_its_parameters() -> None:
    schema: dict[str, object] = {}
    schema["properties"] = {"again": schema}
    one = digest(replace(TOOLS[0], schema=schema))
    schema["properties"] = {"again": schema, "more": {}}
    assert digest(replace(TOOLS[0], schema=schema)) != one


def test_nested_parameters_and_those_of_list_items_are_read() -> None:
    inner = {"properties": {"street": {"description": "With its number"}}}
    schema = {"properties": {"home": inner, "others": {"type": "array", "items": inner}}}
    assert [each.name for each in parameters(schema)] == ["home", "street", "others", "street"]


def test_a_schema_of_the_wrong_shape_has_no_parameters() -> None:
    assert parameters({"properties": ["not", "a", "mapping"]}) == []
    (only,) = parameters({"properties": {"odd": True}})
    assert (only.name, only.description, only.values) == ("odd", "", ())


def test_a_schema_that_never_ends_is_cut() -> None:
    schema: dict[str, object] = {}
    schema["properties"] = {"again": schema, "and": schema}
    assert len(parameters(schema)) <= PARAMETERS


def test_many_enum_values_are_cut() -> None:
    schema = {"properties": {"kind": {"enum": list(range(1000))}}}
    (only,) = parameters(schema)
    assert len(only.values) == ENUM_VALUES


def test_a_name_with_a_lone_surrogate_has_a_digest() -> None:
    assert digest(ToolDocument("mcp_x_\ud800", "x", "\ud800"))
