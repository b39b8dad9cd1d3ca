from importlib.resources import files

import pytest

from openclaw.discovery.stems import content_words, sentences, split_words, stem


@pytest.mark.parametrize("name", ["create_issue", "createIssue", "create-issue", "CreateIssue"])
def test_names_come_apart_however_they_are_joined(name: str) -> None:
    assert split_words(name) == ["create", "issue"]


def test_capitals_in_a_row_are_one_word() -> None:
    assert split_words("parseHTTPRequest") == ["parse", "http", "request"]


def test_words_that_say_nothing_are_left_out() -> None:
    assert content_words("Could you please help me to find the invoice?") == ["find", "invoice"]


def test_text_in_other_scripts_has_words() -> None:
    assert split_words("Прогноз погоды") == ["прогноз", "погоды"]


def test_chinese_words_are_put_in_english() -> None:
    assert split_words("查询2024年天气预报API") == ["query", "2024", "年", "forecast", "api"]


def test_two_letters_each_are_words_where_a_script_has_no_spaces() -> None:
    assert split_words("阿尔法") == ["阿尔", "尔法"]
    assert split_words("日本の") == ["日本", "本の"]
    assert split_words("人 y") == ["人", "y"]


def test_each_chinese_word_is_listed_once() -> None:
    lines = files("openclaw.discovery").joinpath("chinese.txt").read_text(encoding="utf-8")
    words = [word for line in lines.splitlines() for word in line.split()[1:]]
    assert len(words) == len(set(words))


def test_a_text_comes_apart_at_sentences_and_lines() -> None:
    assert sentences("One. Two!\nThree") == ["One.", "Two!", "Three"]


@pytest.mark.parametrize(
    ("word", "stemmed"),
    [
        ("caresses", "caress"),
        ("ponies", "poni"),
        ("agreed", "agre"),
        ("plastered", "plaster"),
        ("motoring", "motor"),
        ("conflated", "conflat"),
        ("hopping", "hop"),
        ("filing", "file"),
        ("happy", "happi"),
        ("relational", "relat"),
        ("formalize", "formal"),
        ("adjustable", "adjust"),
        ("adoption", "adopt"),
        ("probate", "probat"),
        ("controlling", "control"),
    ],
)
def test_stems_are_those_of_porters_paper(word: str, stemmed: str) -> None:
    assert stem(word) == stemmed


@pytest.mark.parametrize("word", ["s3", "é", "по", "k8s", "a"])
def test_what_is_not_an_english_word_is_left_as_it_is(word: str) -> None:
    assert stem(word) == word
