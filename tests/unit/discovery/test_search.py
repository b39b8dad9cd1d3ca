from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.unit.discovery.catalogue import TOOLS, tool

from openclaw.discovery.stems import ToolDocument
from openclaw.discovery.tool_index import ToolIndex, build_index


@pytest.fixture(scope="module")
def index() -> ToolIndex:
    return build_index(TOOLS)


def first(index: ToolIndex, query: str) -> str:
    return index.search(query, 1)[0].full_name


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("create an issue", "mcp_github_create_issue"),
        ("open issues", "mcp_github_list_issues"),
        ("merging pull requests", "mcp_github_mergePullRequest"),
        ("recipient", "mcp_mail_send_message"),
        ("sky", "mcp_sky_get_forecast"),
    ],
)
def test_words_of_any_field_are_found(index: ToolIndex, query: str, expected: str) -> None:
    assert first(index, query) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("erase a file", "mcp_files_delete_file"),
        ("will it rain tomorrow", "mcp_sky_get_forecast"),
        ("purchase a laptop", "mcp_shop_find_product"),
        ("cheap goodies", "mcp_shop_find_product"),
    ],
)
def test_other_words_for_the_same_are_found(index: ToolIndex, query: str, expected: str) -> None:
    assert first(index, query) == expected


def test_a_misspelt_word_is_found(index: ToolIndex) -> None:
    assert first(index, "recipent") == "mcp_mail_send_message"


@pytest.mark.parametrize("typed", ["forcast", "foreecast", "foercast", "forexast"])
def test_a_word_with_a_typing_error_counts_as_the_right_one(index: ToolIndex, typed: str) -> None:
    wrong, right = index.search(typed, 1)[0], index.search("forecast", 1)[0]
    assert wrong == right


def test_a_word_that_only_resembles_one_counts_less(index: ToolIndex) -> None:
    resembling, right = index.search("fourcats", 1)[0], index.search("forecast", 1)[0]
    assert resembling.confidence < right.confidence


def test_a_number_is_not_taken_for_another() -> None:
    trains = tool("rail", "12306", "Left")
    found = build_index([*TOOLS, trains]).search("12346 left", 1)[0]
    known = build_index([*TOOLS, trains]).search("12306 left", 1)[0]
    assert found.confidence < known.confidence


def test_to_get_something_about_a_subject_is_to_search_for_it() -> None:
    lookup = tool("wiki", "search_articles", "Pages of the encyclopedia")
    other = tool("wiki", "mark_articles", "Pages of the encyclopedia")
    index = build_index([*TOOLS, other, lookup])
    assert first(index, "encyclopedia articles about foxes") == "mcp_wiki_search_articles"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("明天的天气怎么样", "mcp_sky_get_forecast"),
        ("删除文件", "mcp_files_delete_file"),
        ("给客户发送邮件", "mcp_mail_send_message"),
    ],
)
def test_a_need_in_chinese_finds_tools_described_in_english(
    index: ToolIndex, query: str, expected: str
) -> None:
    assert first(index, query) == expected


def test_a_need_in_english_finds_a_tool_described_in_chinese() -> None:
    trains = tool("12306", "left", "查询火车的余票和价格")
    assert first(build_index([*TOOLS, trains]), "train tickets") == "mcp_12306_left"


@pytest.mark.parametrize(
    "place", ["/srv/forecast/weather/city.txt", r"C:\weather\forecast\city.txt"]
)
def test_a_path_stands_for_a_file_more_than_for_its_words(index: ToolIndex, place: str) -> None:
    assert first(index, f"read {place}") == "mcp_files_read_file"


def test_a_number_says_less_than_a_word() -> None:
    taxes = tool("taxes", "rates", "Due in 2019")
    assert first(build_index([*TOOLS, taxes]), "someone 2019") == "mcp_mail_send_message"


def test_what_a_name_says_that_the_tool_does_counts() -> None:
    text = tool("docs", "text", "Write, make, draft")
    insert = tool(
        "docs", "insert_text", "Goes where the cursor of the editor is, in bold or plain letters"
    )
    assert first(build_index([*TOOLS, text, insert]), "compose text") == "mcp_docs_insert_text"


def test_a_value_of_an_enumeration_is_found() -> None:
    schema = {"properties": {"shape": {"enum": ["triangle", "hexagon"]}}}
    odd = ToolDocument("mcp_draw_figure", "draw", "figure", "Draws", schema)
    assert first(build_index([*TOOLS, odd]), "hexagon") == "mcp_draw_figure"


def test_a_server_description_finds_its_tools() -> None:
    plain = ToolDocument("mcp_x_go", "x", "go", "Starts", server_description="Drone telemetry")
    assert first(build_index([*TOOLS, plain]), "telemetry of a drone") == "mcp_x_go"


def test_matches_come_best_first_and_no_more_than_asked(index: ToolIndex) -> None:
    scores = [match.score for match in index.search("issue in a repository", 4)]
    assert len(scores) == 4
    assert scores == sorted(scores, reverse=True)


def test_a_limit_beyond_the_catalogue_returns_every_tool(index: ToolIndex) -> None:
    assert len(index.search("file", 100)) == len(TOOLS)


def test_a_task_of_several_sentences_finds_a_tool_for_each(index: ToolIndex) -> None:
    task = "Read the contents of the file. Then send an email to Ann. Look up the weather forecast."
    names = {match.full_name for match in index.search(task, 3)}
    assert names == {"mcp_files_read_file", "mcp_mail_send_message", "mcp_sky_get_forecast"}


def test_a_good_match_fits_and_a_bad_one_does_not(index: ToolIndex) -> None:
    assert index.search("create a new issue in a repository", 1)[0].fits
    assert not any(match.fits for match in index.search("tune my grand piano by ear", 5))


def test_a_match_for_one_sentence_of_several_fits(index: ToolIndex) -> None:
    task = "Tell my aunt Ann everything about her garden. Then delete the file from disk."
    assert index.search(task, 1)[0].full_name == "mcp_files_delete_file"
    assert index.search(task, 1)[0].fits


@pytest.mark.parametrize("query", ["", "   ", "?!", "\n\n"])
def test_a_query_without_words_finds_nothing(index: ToolIndex, query: str) -> None:
    assert index.search(query) == []


def test_a_query_of_stop_words_alone_fits_nothing(index: ToolIndex) -> None:
    assert not any(match.fits for match in index.search("what can you do"))


def test_an_empty_catalogue_finds_nothing() -> None:
    assert build_index([]).search("anything") == []


def test_a_single_tool_is_found() -> None:
    assert first(build_index(TOOLS[:1]), "issue") == "mcp_github_create_issue"


def test_a_very_long_query_is_searched(index: ToolIndex) -> None:
    assert index.search("read the file. " * 20000, 1)[0].full_name == "mcp_files_read_file"


def test_the_end_of_a_conversation_counts_and_its_code_does_not(index: ToolIndex) -> None:
    talk = (
        "Let us talk about the weather forecast in the city. " * 100
        + "```\nmerge pull request\n```\nSee https://example.org/create/issue\n"
        + "Please read the contents of that file for me. " * 80
    )
    assert index.nearest(talk, 1)[0].full_name == "mcp_files_read_file"


def test_threads_that_share_an_index_get_the_same_matches(index: ToolIndex) -> None:
    queries = ["create an issue", "rain", "recipent", "file"] * 25
    alone = [index.search(query) for query in queries]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(index.search, queries)) == alone


def test_a_tool_without_any_words_does_no_harm() -> None:
    silent = tool("", "", "")
    assert first(build_index([silent, *TOOLS]), "issue").startswith("mcp_github")


@pytest.mark.parametrize(
    "text", ["a." * 500_000, " " * 1_000_000 + "x", "```" * 300_000, "a-" * 500_000]
)
def test_a_hostile_conversation_is_searched(index: ToolIndex, text: str) -> None:
    assert index.nearest(f"{text} delete the file from disk", 1)[0].server == "files"
