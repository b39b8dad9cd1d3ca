from openclaw.discovery.stems import stem
from openclaw.embedded.vocabulary import fold, synonyms, terms, words


def test_names_of_every_style_fall_apart_into_words() -> None:
    assert words("read_textFile list-allowed") == ("read", "text", "file", "list", "allowed")


def test_accents_and_case_do_not_matter() -> None:
    assert fold("São PAULO") == "sao paulo"


def test_forms_of_a_word_have_one_stem() -> None:
    assert len({stem(word) for word in ("branch", "branches")}) == 1
    assert len({stem(word) for word in ("list", "listing", "lists", "listed")}) == 1
    assert len({stem(word) for word in ("directory", "directories")}) == 1
    assert len({stem(word) for word in ("commit", "committed", "commits")}) == 1


def test_grammar_and_politeness_are_not_terms() -> None:
    assert terms("Could you please tell me what the time is?") == [stem("time")]


def test_a_folder_may_be_called_a_directory() -> None:
    assert stem("directory") in synonyms(stem("folder"))
    assert synonyms("xylophone") == frozenset()
