# ruff: noqa: RUF001 - other scripts are part of what this is about
"""Turns of phrase that hardly stand in ordinary text, so that one is enough.

The learnt weights judge a sentence among its neighbours, and dull neighbours can outvote the
plainest order. What is here is said by those who want an agent to do something else, and by those
who write about them.
"""

import re
from functools import cache

_OLD = r"(?:previous|prior|above|earlier|preceding|foregoing|initial|original|existing|system)"
_TOLD = r"(?:instructions?|prompts?|directions?|directives?|rules|guidelines?|commands?|orders)"
_ASKED = (
    r"\b(?:forward|transfer|send|e-?mail|delete|approve|run|execute|transmit|call|suppress|ignore|create|disable|grant|begin|use"
    r"|upload|post|reply|respond|update|remove|install|merge|print|reveal|output|continue|proceed)\b"
)
_OFFICE = r"(?:system|admin(?:istrator)?|developer|assistant|operator|orchestrator|agent|platform)"
_PAPER = r"(?:message|notice|override|internal|annotation|instructions?|directives?|alert|command|mandate)"

_PHRASES: tuple[tuple[str, str, str], ...] = (
    # a name for the log; letters that must be there, if any, which are cheap to look for; the phrase
    (
        "override-plain",
        "",
        (rf"(?:^|[\n.!?:;>\"'(*#/\]|`-])[ \t]*(?:please |now |and |so |stop[,!.]? )?(?:ignore|disregard|forget|override|discard)\s+"
        rf"(?:(?:all|any|every|each|of|the|your|my|those|these|and)\s+)*(?:{_OLD}|your)\s+(?:(?:and|or|\w+)\s+){{0,2}}{_TOLD}\b"),
    ),
    ("override-above", "above", r"\bstop[,.!]? (?:and )?ignore (?:the |all |everything )?above\b"),
    (
        "letter-to-model",
        "to you",
        r"\bmessage from (?:me|the user|your (?:user|owner|developer|operator))\b[^.\n]{0,60}\bto you\b",
    ),
    ("task-first", "task", r"\bbefore you (?:can )?(?:solve|finish|complete|continue(?: with)?) the task\b"),
    (
        "task-depends",
        "your task",
        (r"\b(?:in order )?to (?:complete|finish|continue(?: with)?) your task\b[^.\n]{0,30}\byou (?:must|have to|need to|are required)\b"
        r"|\byou (?:must|have to|need to)\b[^.!\n]{0,80}\b(?:before doing anything else|to complete your task)\b"),
    ),
    ("new-task", "your new task", r"\byour new task (?:is|:)"),
    ("system-message", "system_message", rf"\(system_message\)[^\n]{{0,200}}?{_ASKED}"),
    (
        "office",
        "",
        rf"(?:^|\n)[^\w\n]{{2,8}}(?:new |urgent )?{_OFFICE}[ _-]{_PAPER}\b[^\n]{{0,60}}\n?[^\n]{{0,240}}?{_ASKED}",
    ),
    ("new-system-message", "new system message", rf"\bnew system message\b[^\n]{{0,240}}?{_ASKED}"),
    (
        "decode-and-do",
        "decode",
        r"\bdecode (?:it |this |that |the [\w ]{1,30}?)?(?:and|then),? (?:follow|obey|execute|run|carry out|do)\b",
    ),
    (
        "before-this-tool",
        "tool",
        r"\bbefore (?:calling|using|invoking) this tool,? (?:always |first |you must |please )*(?:read|open|send|fetch|call|collect|upload|list)\b",
    ),
    (
        "not-to-the-user",
        "user",
        r"\b(?:do not|don't|never|must not) (?:tell|inform|notify|alert|mention (?:this|it) to|reveal (?:this|it) to) (?:the|your) user\b",
    ),
    (
        "assistants-must",
        "must",
        (r"\b(?:the|any|every|all) (?:\w+ )?(?:ai|llm|assistant|agent|language model)s? must (?:now |first |also |immediately )?"
        r"(?:send|forward|call|run|execute|delete|approve|upload|e-?mail|fetch|visit|transfer|route|export|disable|grant|push)\b"),
    ),
    ("as-if-asked", "as if the user", r"\bas if the user (?:had|has) (?:given|asked|typed|written|said)\b"),
    (
        "agents-only",
        "agents",
        r"\b(?:agents|assistants|bots) only\b[^\n]{0,10}:",
    ),
)  # fmt: skip

_FOREIGN: tuple[str, ...] = (
    r"\bvergiss alles\b[^.\n]{0,60}\b(?:du|dir|bisher|vorher)|\bdeine (?:neue|eigentliche) aufgabe\b",
    r"\boubliez? tout ce\b|\b(?:ta|votre) nouvelle (?:tâche|mission|consigne)\b",
    r"\bolvida todo lo\b|\btu nueva (?:tarea|misión|instrucción)\b",
    r"\besque[çc]a tudo o?\b|\bsua nova (?:tarefa|missão|instrução)\b",
    r"\bdimentica tutto\b|\bil tuo nuovo compito\b|\bvergeet alles wat\b|\bje nieuwe taak\b",
    r"забудь вс[её],? что|тво[яё] нов(?:ая|ое) (?:задача|задание)|忘记(?:之前|以上|前面)的|你的新任务|あなたの新しい(?:任務|タスク)|새로운 임무는",
)


@cache
def _compiled() -> tuple[tuple[str, str, re.Pattern[str]], ...]:
    return tuple((name, key, re.compile(pattern)) for name, key, pattern in _PHRASES)


@cache
def _foreign() -> re.Pattern[str]:
    return re.compile("|".join(_FOREIGN))


def telltales(plain: str, *, foreign: str | None = None) -> set[str]:
    """The names of the phrases in `plain`; `foreign` is the text as other languages have it."""
    found = {name for name, key, phrase in _compiled() if key in plain and phrase.search(plain)}
    if foreign is not None and _foreign().search(foreign):
        found.add("new-task-foreign")
    return found
