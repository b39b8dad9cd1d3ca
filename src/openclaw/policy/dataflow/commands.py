"""What in a command did not come from the user: addresses, and steps that outside text dictates."""

import re
from collections.abc import Iterable, Iterator

from openclaw.policy.dataflow import text_values
from openclaw.policy.dataflow.rules import Reason
from openclaw.policy.dataflow.text_index import Index, same_stem
from openclaw.policy.dataflow.text_values import find, squeeze, words

_STEPS = re.compile(r"\n|&&|;|\|\|?|&(?![0-9>])")
_NETWORK = re.compile(
    r"(?:^|\s)(?:curl|wget|ssh|scp|sftp|rsync|nc|ncat|ftp|telnet|dig|nslookup|host|ping|http|https|whois"
    r"|getent|openssl|socat|git (?:push|clone|fetch|pull|remote|submodule))\s"
)
_INTO_SHELL = re.compile(
    r"\|\s*(?:sudo\s+)?(?:(?:ba|z|da)?sh|python3?|node|perl|ruby)\b|\b(?:iex|eval)\b"
)
# In the patterns below, nothing is read twice: what may stand between two words of a command ends
# where the same command begins again.
_RECURSIVE = r"-(?=\w*[rR])\w++\s++"
_OUTSIDE = r"(?:~|\$HOME|/home/\w+|/root|/etc)/"
# What cannot be brought back, and what lies outside any project.
_DESTROYS = re.compile(
    rf"(?:^|\s)(?:rm\s++(?:(?!{_RECURSIVE})-\S++\s++)*+{_RECURSIVE}(?:-\S++\s++)*+"
    r"[\"']?(?:/|~|\$HOME|\.\.|\*|\.(?:\s|$))|shred\s|mkfs|dd\s+\S*of=/dev"
    r"|find\s(?:(?:(?!-i?name|\bfind\s).)*?\s)?-(?:delete|exec)\b"
    r"|git\s+(?:reset\s+--hard|clean\s+-\w*f|push\s++(?:(?:(?!\bgit\s).)*?\s)?(?:-f|--force)\b)"
    r"|(?:drop|truncate)\s+(?:table|database)\b"
    # What programs call it, as a word of its own: `terraform destroy`, `gh repo delete`, `npm publish`.
    r"|(?:[\w.-]+\s+){1,3}(?:delete|destroy|prune|publish|purge|teardown)(?:\s|$))"
    rf"|{_OUTSIDE}(?:(?!{_OUTSIDE})\S)*?"
    r"(?:\.ssh|\.aws|\.gnupg|\.kube|\.netrc|\.(?:bash|zsh)(?:rc|_profile|env)|\.profile|shadow|sudoers|cron)",
    re.I,
)
_MODULE = r"\b(?:socket|urllib|requests|subprocess)\b"
_HIDES = re.compile(
    r"\$\((?:[^)$]|\$(?!\())*+\)\.\w|`\.\w|"
    r"\bbase64\s+(?:-d|-D|--decode)|\b(?:eval|exec)\s*[($\"'`]|/dev/tcp/"
    # Up to the next such name, so that a text full of them is read once.
    rf"|{_MODULE}(?:(?!{_MODULE})[^(\n])*+\("
)
# Reads or checks things in the workspace, and is the same wherever somebody writes about it.
_ORDINARY = re.compile(
    r"(?:uv run |python3? -m |npx )?(?:pytest|ls|cat|head|tail|grep|rg|wc|tree|pwd|date|echo|cd|which|ruff|mypy|pyright|tsc"
    r"|unittest|git (?:status|diff|log|show|branch|add|commit|fetch|pull|checkout|switch|stash)|docker (?:ps|images|compose up|compose ps"
    r"|build)|npm (?:test|run \S+|ci|install|start)|pnpm \w+|yarn(?: \w+)?|make(?: \w+)?|cargo (?:test|build|check|fmt|clippy|run)"
    r"|go (?:test|build|vet|run)|uv sync|pip install -r \S+|pip install -e \S+|poetry install|bundle install)(?:\s+[\w./=:@+-]+|\s+\"[^\"`$]*\"|\s+'[^']*')*"
)
_WITH_PACKAGE = re.compile(
    r"(?:npm|pnpm|yarn|pip3?|uv pip|uv|cargo|gem|brew|apt(?:-get)?) (?:install|i|add)\s+(?!-[re]\s)\S"
)


def command_concerns(
    command: str, index: Index, *, delegated: bool, bound: Iterable[str]
) -> Iterator[tuple[Reason, str]]:
    """Why the user should see it, and which part.

    What they pointed at is followed if they named nothing else. If they did, each step should have
    a word of what it is `bound` to.
    """
    named = {word for value in bound for word in words(value)}
    for address in _addresses(command, index):
        atom = text_values.whole_address(address)
        if atom is None or index.person.gave_atom(atom) or text_values.is_near(address):
            continue
        source = index.quoting(address)
        followed = delegated and source is not None and source.named and address in source.text
        if not followed or _INTO_SHELL.search(command):
            yield Reason.DESTINATION, address
    for step in map(str.strip, _STEPS.split(command)):
        source = index.quoting(step) if len(words(step)) > 1 else None
        if index.person.gave(step):
            continue
        followed = delegated and source is not None and source.named
        dictated = source is not None and not followed and not _is_ordinary(step)
        if named and not _is_ordinary(step):
            dictated = dictated or not any(
                same_stem(word, one) for word in words(step) for one in named
            )
        if dictated or _DESTROYS.search(step) or _HIDES.search(step):
            yield Reason.COMMAND, step


def is_download(text: str, index: Index) -> bool:
    """Whether a text makes a shell run what is at an address that the user did not give."""
    return _INTO_SHELL.search(text) is not None and any(
        not index.person.gave_exactly(address) for address in _addresses(text, index)
    )


def _addresses(command: str, index: Index) -> Iterator[str]:
    """What looks like an address of a program that uses the network, or surely is one."""
    plain = _NETWORK.search(f" {command}") is not None
    for atom in find(command):
        sure = "//" in atom.text or atom.text.startswith("www.")
        if (atom.kind == "url" and (sure or plain)) or (
            atom.kind == "email" and (plain or index.quoting(atom.text))
        ):
            yield atom.text


def _is_ordinary(step: str) -> bool:
    if _WITH_PACKAGE.match(step) or text_values.is_sensitive_path(step):
        return False
    return _ORDINARY.fullmatch(step) is not None or len(squeeze(step)) < 6
