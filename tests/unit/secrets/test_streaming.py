"""An answer that is redacted while it is written comes out as if it had been redacted whole."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.secrets.redactor import Redactor
from openclaw.secrets.streaming import DeltaRedactor

SECRET = "tok-Zx81kQp0aLm3vT9bW2nC7dE5-uR6yH4jF"
PHRASE = "correct horse battery staple"
KEY = "-----BEGIN PRIVATE KEY-----\n" + "\n".join(["MIIEvQIBADANBgkqhkiG9w0B" * 2] * 9)
TEXTS = {
    "a token": f"It is {SECRET}, they say.",
    "at the end": f"It is {SECRET}",
    "alone": SECRET,
    "twice": f"{SECRET}{SECRET} and {SECRET}",
    "words": f"The phrase is {PHRASE}. Remember it.",
    "almost": "tok-Zx81kQp0 is not it, nor is correct horse",
    "over lines": f"First {SECRET[:9]}\n{SECRET[9:]} then",
    "a shape": "Use sk-abcdefghij0123456789 for it.",
    "a header": "Authorization: Bearer abcdef0123456789abcd and so on",
    "an assignment": 'password = "Sesame-open-1234" is set',
    "a private key": f"Here:\n{KEY}\n-----END PRIVATE KEY-----\nThat was it.",
    "Markdown": f"# Title\n\n* one\n* `{SECRET}`\n\n```\nx = 1\n```\n",
    "Chinese": f"密码是{SECRET}。就这样。",
    "nothing": "  A plain answer,\n\nwith   spaces and 数字 in it.  \n",
}


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    one = Redactor()
    one.register(SECRET)
    one.register(PHRASE)
    return one


def shown(redactor: Redactor, pieces: list[str]) -> str:
    stream = DeltaRedactor(redactor)
    return "".join([*map(stream.feed, pieces), stream.finish()])


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_secret_split_at_any_place_does_not_pass(redactor: Redactor, text: str) -> None:
    whole = redactor.redact(text)
    for at in range(len(text) + 1):
        assert shown(redactor, [text[:at], text[at:]]) == whole, at


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
def test_pieces_of_any_size_give_the_same(redactor: Redactor, text: str, size: int) -> None:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert shown(redactor, pieces) == redactor.redact(text)


def test_no_beginning_of_a_secret_is_seen_before_the_rest_comes(redactor: Redactor) -> None:
    stream = DeltaRedactor(redactor)
    given = "".join(stream.feed(letter) for letter in f"so {SECRET[:-1]}")
    assert given == "so"


def test_words_come_as_soon_as_they_are_whole(redactor: Redactor) -> None:
    stream = DeltaRedactor(redactor)
    assert [stream.feed(piece) for piece in ("Hel", "lo ", "you", "! ", "再见")] == [
        "",
        "Hello",
        "",
        " you!",
        " 再见",
    ]
    assert stream.finish() == ""


def test_after_the_end_a_new_text_begins(redactor: Redactor) -> None:
    stream = DeltaRedactor(redactor)
    assert stream.feed("password = ") + stream.finish() == "password = "
    assert stream.feed("Sesame-open-1234 ") == "Sesame-open-1234"


def test_a_word_without_end_is_not_held_for_ever_and_costs_no_more_than_linear_time(
    redactor: Redactor,
) -> None:
    stream = DeltaRedactor(redactor)
    began = time.process_time()
    given = "".join(stream.feed("xyzw" * 16) for _ in range(1000))
    assert len(given) > 50_000
    assert time.process_time() - began < 10
    assert SECRET not in given + stream.feed(SECRET) + stream.finish()


@given(
    st.lists(
        st.one_of(
            st.sampled_from([SECRET, PHRASE, "sk-abcdefghij0123456789", " ", "\n", "tok-", "ein"]),
            st.text(max_size=12),
        ),
        max_size=12,
    ),
    st.randoms(use_true_random=False),
)
def test_no_way_of_cutting_lets_a_known_value_pass(parts: list[str], random: object) -> None:
    redactor = Redactor()
    redactor.register(SECRET)
    redactor.register(PHRASE)
    text = "".join(parts)
    pieces: list[str] = []
    while text:
        at = random.randint(1, 9)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType] - hypothesis types it as an object
        pieces.append(text[:at])
        text = text[at:]
    given = shown(redactor, pieces)
    assert SECRET not in given
    assert PHRASE not in given
