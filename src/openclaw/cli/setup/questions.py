"""The questions of `openclaw init`, on a terminal or answered by options."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from openclaw.cli.argv_text import read_line
from openclaw.cli.environment import Environment
from openclaw.cli.render.terminal import fitted
from openclaw.core.errors import InvalidRequest

ALL, NONE = "all", "none"


class Left(Exception):
    """Raised when the person does not want to go on."""


@dataclass(frozen=True, slots=True)
class Line:
    """One of the things to choose from: what is typed for it, and what is shown."""

    name: str
    shown: str


class Asker:
    """Asks one question at a time; an empty answer takes what is suggested."""

    def __init__(self, env: Environment) -> None:
        self._env = env

    def one(
        self,
        question: str,
        lines: Sequence[Line],
        *,
        other: str,
        objection: Callable[[str], InvalidRequest | None],
    ) -> str:
        """One of these, the first where nothing is typed; or something else with a slash.

        `objection` says what is wrong with that, so that it is asked for again.
        """
        self._show(question, lines)
        hint = f", or {other}"
        numbers = "1" if len(lines) == 1 else f"1 to {len(lines)}"
        while True:
            said = self._read(f"  a number{hint} [1]: ") or "1"
            if "/" in said:
                wrong = objection(said)
                if wrong is None:
                    return said
                self._env.say(fitted(f"  {wrong.message}; {wrong.hint}", self._env.stdout, hang=2))
                continue
            try:
                [chosen] = chosen_names(said, lines, "number")
            except (InvalidRequest, ValueError):
                self._env.say(f"  {numbers}{hint}, please")
            else:
                return chosen

    def several(self, question: str, lines: Sequence[Line], *, suggested: str) -> list[str]:
        """Any of these."""
        self._show(question, lines)
        while True:
            said = self._read(f"  numbers, {ALL} or {NONE} [{suggested}]: ") or suggested
            try:
                return chosen_names(said, lines, "number")
            except InvalidRequest as error:
                self._env.say(f"  {error.message}")

    def yes(self, question: str) -> bool:
        """Whether the person agrees, having seen what to: Enter is a yes, as it is to what was suggested."""
        return self._read(f"{question} [Y/n] ").casefold() in ("", "y", "yes")

    def _show(self, question: str, lines: Sequence[Line]) -> None:
        self._env.say(fitted(f"\n{question}", self._env.stdout))
        for number, line in enumerate(lines, 1):
            self._env.say(fitted(f"  {number}. {line.shown}", self._env.stdout, hang=5))

    def _read(self, prompt: str) -> str:
        self._env.stdout.write(prompt)
        self._env.stdout.flush()
        line = read_line(self._env.stdin)
        if not line:  # Ctrl-D
            raise Left
        return line.strip()


def chosen_names(said: str, lines: Sequence[Line], what: str) -> list[str]:
    """The names that these words mean: `all`, `none`, numbers or names by commas or spaces."""
    if said.casefold() == ALL:
        return [line.name for line in lines]
    if said.casefold() == NONE:
        return []
    names = [line.name for line in lines]
    chosen: list[str] = []
    for word in said.replace(",", " ").split():
        if word.isascii() and word.isdigit() and 1 <= int(word) <= len(lines):
            name = names[int(word) - 1]
        elif word in names:
            name = word
        else:
            raise InvalidRequest(f"there is no {what} {word!r}")
        if name not in chosen:
            chosen.append(name)
    return chosen


def by_option(said: str, names: Sequence[str], what: str, hint: Callable[[], str]) -> list[str]:
    """The names that an option gives; raises `InvalidRequest` for one that there is not."""
    try:
        return chosen_names(said, [Line(name, name) for name in names], what)
    except InvalidRequest as error:
        raise InvalidRequest(error.message, hint=hint()) from None
