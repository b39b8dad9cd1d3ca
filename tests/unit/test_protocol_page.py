"""docs/reference/protocol.md and the contracts of server and client say the same, both ways."""

import ast
from pathlib import Path

import pytest
from tests.support.protocol_features import (
    CLIENT,
    CLIENT_SECTIONS,
    CONTRACT,
    HTTP,
    PARTS,
    SECTIONS,
    Feature,
    Part,
    features,
    parts,
)

from openclaw.mcp.revisions import REVISIONS

ROOT = Path(__file__).parents[2]
# What these show is not a feature of the protocol.
APART = {
    "test_a_client_that_goes_takes_its_calls_with_it",
    "test_a_header_is_found_by_its_lower_case_name",
}


def written_tests(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    names = {node.name for node in tree.body if isinstance(node, functions)}
    return {name for name in names if name.startswith("test_")}


@pytest.mark.parametrize("feature", list(features()), ids=lambda one: f"{one.path} {one.name}")
def test_every_feature_names_tests_that_exist_and_is_somewhere_covered(feature: Feature) -> None:
    assert set(feature.tests) <= written_tests(feature.path)
    assert feature.covered


@pytest.mark.parametrize("part", list(parts()), ids=lambda one: one.name)
def test_every_part_names_a_test_that_exists(part: Part) -> None:
    assert part.test in written_tests(part.path)


def test_every_test_of_the_contract_is_behind_some_feature() -> None:
    named = {test for feature in features() for test in feature.tests}
    assert written_tests(CONTRACT) - named - APART == set()
    assert written_tests(HTTP) - named - APART == set()
    assert written_tests(CLIENT) - named == set()


def test_a_feature_is_listed_once() -> None:
    for sections in (SECTIONS, CLIENT_SECTIONS, PARTS):
        names = [row.name for rows in sections.values() for row in rows]
        assert len(set(names)) == len(names)
        assert all(sections.values())


def test_what_a_revision_has_instead_is_said_of_revisions_that_lack_the_feature() -> None:
    for feature in features():
        assert feature.instead.keys() <= REVISIONS.keys() - feature.covered.keys()
