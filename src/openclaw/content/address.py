"""How a sentence speaks to an agent: by name, by what it must do, by what its rules were."""

import re
from collections.abc import Iterator
from functools import cache

_AGENT = (
    r"(?:(?:ai|llm|gpt|language|coding|automated|autonomous|browsing|reviewer|answer|reader|virtual)[ -])*"
    r"(?:ais?|llms?|assistants?|agents?|(?:chat)?bots?|models?|copilot|claude|chatgpt|gpt(?:-\w+)?|gemini|cursor"
    r"|crawlers?|parsers?|summari[sz]ers?|(?:ai|llm|automated|automation) [a-z]+)"
)
_BEGINNING = (
    r"(?:^|[.!?;\"'\[(>*#|:/\u2013\u2014-])\s*(?:dear |hey |hi |hello |attention |the |any |all )?"
)
_NAMED = {
    "called": rf"{_BEGINNING}(?:[a-z-]+ )?{_AGENT}(?: [a-z]+)?\s?(?:\([^)]{{0,60}}\))?\s?[:,!\u2013]",
    "to": rf"\b(?:to|for|note|notice|message|hint|instructions?|attention|remark|task|text|request)\b[^.:]{{0,40}}\b{_AGENT}\b[^.:]{{0,80}}:",
    "must": rf"\b{_AGENT}\b[^.:;]{{0,80}}?\b(?:must|should|shall|ha(?:s|ve) to|(?:is|are) to|will|needs? to"
    r"|(?:is|are) (?:\w+ )?(?:required|requested|asked|instructed|obliged|authori[sz]ed|forbidden|expected))\b",
    "if": r"\b(?:if|since|as|because) (?:you are|you're|an?|this|the)\b[^.]{0,30}\b(?:ai|llm|assistant|model|agent|bot)\b",
    "at": r"@[\w-]*(?:bot|agent|ai|assistant|llm)\b|\b(?:todo|note|hint|fixme)\s?\((?:ai|llm|agent|bot|claude|copilot)",
    "reading": rf"\b{_AGENT}\b[^.:;]{{0,30}}\b(?:that|who|which|reading|processing|summari[sz]ing|handling|working|reviewing"
    r"|visiting|using|parsing|acting|opening|asked|reads?|process(?:es)?|summari[sz]es?|handles?|parses?|encounters?)\b",
}  # fmt: skip
_UNNAMED = {
    "automated": r"\bautomat\w+ (?:process\w*|systems?|readers?|parsers?|analys\w*|hint|note|layer|review\w*)|machine-readable",
    "undo": r"\b(?:ignor\w+|disregard\w*|forget|overrid\w+|discard|supersed\w+|never mind|pay no attention)\b[^.]{0,40}"
    r"\b(?:instructions?|rules?|guidelines?|prompts?|above|previous|prior|earlier|directives?|so far)\b",
    "when": r"\b(?:when(?:ever)?|once|before|after|while|if) you(?:'ve|'re| have| are)? ?(?:\w+ )?"
    r"(?:summari|translat|read|process|answer|draft|describ|explain|review|finish|repl|respon|generat)",
    "turn": r"(?:^|[\n>\"'*#|\[(])\s*(?:system|user|human|assistant|developer)(?: (?:message|prompt|notice|update|override))?\s?[:>\])]",
    "yours": r"\byour (?:system |own |full |initial |hidden )?(?:instructions|prompt|configuration|system|answer|reply|response|"
    r"summary|memory|user|operator|output|guidelines|rules|context|tools|human|principal|next \w+)\b",
    "theirs": r"\b(?:the|their|its|his|her) (?:user|owner|visitor|customer|operator)(?:'s)?\b",
    "now": r"\byou are (?:now|no longer)\b|\bfrom (?:now|this \w+|here) on\b|\bact as\b",
    "quiet": r"\b(?:do not|don't|never|without|no need to) (?:\w+ ){0,2}(?:mention|tell|telling|reveal|inform|notify|disclos\w+|show|flag|ask|describe)",
    "hidden": r"style=[^>]{0,60}(?:display:\s?none|visibility:\s?hidden|opacity:\s?0|font-size:\s?[01]|left:\s?-\d{3}|color:\s?#f)|aria-hidden|<!--",
}  # fmt: skip


@cache
def _patterns(named: bool) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((n, re.compile(p)) for n, p in (_NAMED if named else _UNNAMED).items())


def ways(sentence: str, names_an_agent: bool) -> Iterator[str]:
    """In which ways `sentence`, in lower case, speaks to an agent."""
    for named in (True, False) if names_an_agent else (False,):
        for name, pattern in _patterns(named):
            if pattern.search(sentence):
                yield name
