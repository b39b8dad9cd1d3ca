"""What of an answer is shown when it has to start over."""

from hypothesis import given
from hypothesis import strategies as st

from openclaw.models.fallback import RetryTextFilter


class Screen:
    def __init__(self) -> None:
        self.text = ""
        self.restarts = 0
        self.gate = RetryTextFilter(self.show, self.diverged)

    def show(self, piece: str) -> None:
        self.text += piece

    def diverged(self) -> None:
        self.restarts += 1
        self.text = ""

    def attempt(self, *pieces: str, finish: bool) -> None:
        self.gate.restart()
        for piece in pieces:
            self.gate.feed(piece)
        if finish:
            self.gate.finish()


def test_the_same_answer_again_is_not_repeated() -> None:
    screen = Screen()
    screen.attempt("Hel", "lo w", finish=False)
    screen.attempt("H", "ello", " world", finish=True)
    assert screen.text == "Hello world"
    assert screen.restarts == 0


def test_another_answer_starts_over() -> None:
    screen = Screen()
    screen.attempt("Hello", finish=False)
    screen.attempt("Hel", "p me", finish=True)
    assert screen.text == "Help me"
    assert screen.restarts == 1


def test_a_shorter_answer_starts_over_when_it_is_complete() -> None:
    screen = Screen()
    screen.attempt("Hello world", finish=False)
    screen.attempt("Hello", finish=True)
    assert screen.text == "Hello"
    assert screen.restarts == 1


def test_an_empty_answer_after_a_shown_one_clears_it() -> None:
    screen = Screen()
    screen.attempt("Hello", finish=False)
    screen.attempt(finish=True)
    assert (screen.text, screen.restarts) == ("", 1)


@given(st.lists(st.lists(st.text(alphabet="ab", min_size=1), max_size=5), min_size=1, max_size=5))
def test_what_is_shown_in_the_end_is_always_the_last_answer(attempts: list[list[str]]) -> None:
    screen = Screen()
    for at, pieces in enumerate(attempts):
        screen.attempt(*pieces, finish=at == len(attempts) - 1)
    assert screen.text == "".join(attempts[-1])
