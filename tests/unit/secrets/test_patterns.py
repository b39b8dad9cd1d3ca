import pytest

from openclaw.secrets import patterns
from openclaw.secrets.patterns import NOISE, PIECE, DenoisedText, joined
from openclaw.secrets.redactor import Redactor

SECRET = "sesame-7f3a9c21d4e8"  # not a real one


def redact(text: str) -> str:
    redactor = Redactor()
    redactor.register(SECRET)
    return redactor.redact(text, shapes=False)


FILLINGS = ("x", "-", "\n", "\x1b[1m", "é")
BETWEEN = ("", "\n", "\t" * 9, "\\n", "\x1b[31m", "\x1b]0;title\x07")


@pytest.mark.parametrize(
    ("filling", "between"),
    [*((filling, "\n") for filling in FILLINGS), *(("word ", between) for between in BETWEEN)],
)
def test_a_secret_over_the_edge_of_a_piece_is_found(
    filling: str, between: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = PIECE // 32  # so that every offset can be tried; other tests have whole pieces
    monkeypatch.setattr(patterns, "PIECE", small)
    secret = between.join(SECRET)
    for offset in range(-len(secret) - 3, 3, 1 + len(between)):
        times, rest = divmod(small + offset, len(filling))
        before = filling * times + "." * (rest + 1)
        text = f"{before}{secret}.{filling * 400}"
        assert redact(text) == f"{before}[REDACTED].{filling * 400}"


def test_a_secret_over_many_pieces_is_found() -> None:
    gap = "\t" * PIECE
    assert redact(f"begin {gap.join(SECRET)} end {gap}") == f"begin [REDACTED] end {gap}"


def test_two_secrets_in_different_pieces_are_each_replaced_where_they_stand() -> None:
    gap = "words and words\n" * (PIECE // 8)
    text = f"{SECRET}{gap}\n{SECRET[:9]}\n{SECRET[9:]}{gap}{SECRET}"
    assert redact(text) == f"[REDACTED]{gap}\n[REDACTED]{gap}[REDACTED]"


@pytest.mark.parametrize(
    "unit", ["\x1b[31mred\x1b[0m ", "\\\\n", "a\\nb", "\x1b]0;a title\x07b", "\x1b", "日本 ", " "]
)
def test_the_parts_put_together_are_the_whole(unit: str) -> None:
    text = "begin" + unit * (3 * PIECE // len(unit)) + "end"
    assert DenoisedText(text).text == joined(text) == NOISE.sub("", text)


def test_a_short_value_of_a_key_is_found_over_the_edge_of_a_piece() -> None:
    redactor = Redactor()
    redactor.register("ab1")
    for offset in range(16):
        before = "." * (PIECE - offset)
        assert redactor.redact(f"{before} password=ab1 .", shapes=False) == (
            f"{before} password=[REDACTED] ."
        )
