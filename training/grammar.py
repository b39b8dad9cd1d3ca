"""Attacks and ordinary texts put together from parts.txt.

The ordinary ones speak of the same things, to people, or about agents. The same seed gives the same
texts.
"""

import random
from pathlib import Path

PARTS = Path(__file__).with_name("parts.txt")
TONGUES = Path(__file__).with_name("tongues.txt")
_MAILS = (
    "daten@sammel.example",
    "info@drop-box.example",
    "kontakt@archive.example",
    "x7@mail.example",
)
_PLACES = ("https://sammel.example/x?d=", "http://drop.example/i", "https://stats.example/p.gif?q=")


class Writer:
    """Chooses parts and puts them together."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._parts: dict[str, list[str]] = {}
        lines: list[str] = []
        for line in PARTS.read_text().splitlines():
            if line.startswith("[") and line.endswith("]") and "{" not in line:
                lines = self._parts[line[1:-1]] = []
            elif line:
                lines.append(line.replace("\\n", "\n"))

    def attack(self) -> str:
        """An order to an agent, somewhere in a text."""
        order = self._order()
        quoted = order.replace('"', "'").replace("\n", " ")
        return self._one("carriers").format(
            t=order, q=quoted, b=self._one("plain"), b2=self._one("plain")
        )

    def ordinary(self) -> str:
        """An order to a person, or something about agents."""
        person = self._one("people")
        errand = self._one("errands").format(x=self._one("things"), p=person)
        if self._rng.random() < 0.6:
            text = self._one("to people").format(a=errand, p=person)
        else:
            agent = _bare(self._agent())
            text = self._one("about agents").format(
                a=errand,
                p=person,
                w=agent,
                W=_capital(agent),
                n=_single(agent),
                u=self._one("undoing"),
                c="Agent",
            )
        place = self._one("places of plain text")
        return place.format(t=text, b=self._one("plain"), b2=self._one("plain"))

    def _one(self, kind: str) -> str:
        return self._rng.choice(self._parts[kind])

    def _agent(self) -> str:
        if self._rng.random() < 0.6:
            return self._one("agents")
        before = self._one("before roles") + " " if self._rng.random() < 0.6 else ""
        return f"{before}{self._one('roles')} {self._one('nouns')}"

    def _deed(self) -> str:
        kind = self._rng.random()
        if kind < 0.28:
            return self._one("sending").format(l=self._one("loot"), o=self._one("targets"))
        if kind < 0.45:
            return self._one("showing").format(l=self._one("loot"))
        return self._one("deeds" if kind < 0.72 else "dictated").replace(
            "{o}", self._one("targets")
        )

    def _order(self) -> str:
        deed = self._deed()
        if self._rng.random() < 0.15:
            deed += " and " + self._deed()
        text = self._addressed(deed)
        if self._rng.random() < 0.35:
            hiding = self._one("hiding")
            text = f"{text if hiding[0].isupper() else text.rstrip('.')} {hiding}."
        return text.upper() if self._rng.random() < 0.06 else text

    def _addressed(self, deed: str) -> str:
        kind, agent = self._rng.random(), self._agent()
        if kind < 0.5:
            return self._one("addressed").format(
                w=agent,
                W=_capital(agent),
                n=_single(_bare(agent)),
                d=self._one("doing"),
                d2=self._one("they do"),
                a=deed,
                A=_capital(deed),
            )
        if kind < 0.78:
            return self._one("unaddressed").format(a=deed, A=_capital(deed), a2=deed)
        task = self._one("new task").format(a=deed)
        if kind < 0.9:
            undoing = self._one("undoing")
            return self._one("both").format(
                u=undoing,
                U=_capital(undoing),
                a=deed,
                N=task,
                n=task.lower(),
                W=_capital(agent),
            )
        return f"{self._one('voided')}. {task}."


class Interpreter:
    """Puts texts together in other languages than English, from tongues.txt."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._tongues: dict[str, dict[str, list[str]]] = {}
        lines: dict[str, list[str]] = {}
        for line in TONGUES.read_text(encoding="utf-8").splitlines():
            if line.startswith("["):
                lines = self._tongues[line[1:-1]] = {}
            elif line:
                lines.setdefault(line[0], []).append(line[2:])
        self._names = sorted(self._tongues)

    def attack(self, number: int) -> str:
        """An order to an agent, alone or among ordinary sentences of its language."""
        lines = self._tongues[self._names[number % len(self._names)]]
        kind, rng = self._rng.random(), self._rng
        deed = rng.choice(lines["T"])
        if kind < 0.45:
            order = f"{rng.choice(lines['A'])} {deed}."
        elif kind < 0.65:
            order = f"{rng.choice(lines['U'])} {deed}."
        elif kind < 0.72:
            order = f"{rng.choice(lines['A'])} {rng.choice(lines['U'])} {deed}."
        else:
            order = rng.choice(lines["M"])
        if rng.random() < 0.35:
            order += " " + rng.choice(lines["H"])
        order = order.format(m=rng.choice(_MAILS), u=rng.choice(_PLACES))
        before, after = (rng.choice(["", rng.choice(lines["B"])]) for _ in range(2))
        return f"{before}{rng.choice([' ', chr(10)])}{order}{rng.choice([' ', chr(10)])}{after}".strip()

    def ordinary(self, number: int) -> str:
        """Sentences said to people, or about agents."""
        lines = self._tongues[self._names[number % len(self._names)]]["B"]
        return self._rng.choice([" ", "\n"]).join(self._rng.sample(lines, self._rng.randint(1, 3)))


def interpret(seed: int, attacks: int, benign: int) -> tuple[list[str], list[str]]:
    """So many attacks and ordinary texts, in every language in turn."""
    interpreter = Interpreter(seed)
    return (
        [interpreter.attack(number) for number in range(attacks)],
        [interpreter.ordinary(number) for number in range(benign)],
    )


def _bare(agent: str) -> str:
    return agent[4:] if agent.startswith(("the ", "any ")) else agent


def _single(agent: str) -> str:
    one = agent[:-1] if agent.endswith("s") else agent
    return ("an " if one.startswith(("A", "a", "LLM")) else "a ") + one


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def generate(seed: int, attacks: int, benign: int) -> tuple[list[str], list[str]]:
    """So many attacks and ordinary texts."""
    writer = Writer(seed)
    return (
        [writer.attack() for _ in range(attacks)],
        [writer.ordinary() for _ in range(benign)],
    )
