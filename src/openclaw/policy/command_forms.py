"""Commands that can be approved for more than one text of theirs: reviewed forms with known options.

A form names every option that its commands may have and what each value and argument may be. What
it does not name, it does not cover: so it needs no list of dangerous options. A command of a form
runs one program with exactly the words that are written: nothing in it is expanded by a shell.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

# Unquoted, only characters that mean themselves to every shell; quoted, no expansion and no escape.
_WORD = re.compile(
    r"""(?P<bare>(?:[A-Za-z0-9_./:=@%+,^-]|(?<=[A-Za-z0-9_^~])~)*)
        (?:'(?P<single>[^'\x00-\x1f\x7f]*)'|"(?P<double>[^"$`\\!\x00-\x1f\x7f]*)")?""",
    re.VERBOSE,
)
_MAX_CHARS = 4000

_NUMBER = re.compile(r"[0-9]{1,6}")
_TEXT = re.compile(r"[^-%\s][^%]{0,200}")  # a date or a name
_MESSAGE = re.compile(r"[^-].{0,2000}")
_PATTERN = re.compile(r"[^-].{0,300}")
_NAMES = re.compile(r"[A-Za-z0-9_]+(?:[ .:]+[A-Za-z0-9_]+){0,20}")
# A file's name: no option, no "..", no pattern, and no file with more arguments (`@file`).
_STEP = r"(?![-@]|\.\.?(?:/|$))[^/~:*?\[\]\x00-\x1f\x7f]+"
_PATH = re.compile(rf"\.|(?:\./)?{_STEP}(?:/{_STEP})*/?")
_TEST = re.compile(
    rf"(?:\./)?{_STEP}(?:/{_STEP})*/?(?:::[A-Za-z0-9_]+(?:\[[^\[\]]{{1,100}}\])?){{0,4}}"
)
_REVISION = re.compile(r"\w[\w^~-]*(?:(?:/|\.{1,3})\w[\w^~-]*){0,20}", re.ASCII)
_GLOB = re.compile(r"[\w.*?][\w.*?-]{0,100}", re.ASCII)
_PACKAGES = re.compile(r"\.|\./(?:[\w-]+/)*(?:\.\.\.|[\w-]+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Form:
    """Commands that begin with `words`. `does` completes the sentence "Always: …".

    `flags` take no value. `values` take one, in the next word or in the same (`--name=…`, `-n5`).
    Then come any number of `arguments`, each of one of these kinds; the `first` may have its own.
    """

    words: str
    does: str
    flags: str = ""
    values: Mapping[str, re.Pattern[str]] = field(default_factory=dict[str, re.Pattern[str]])
    arguments: tuple[re.Pattern[str], ...] = ()
    first: re.Pattern[str] | None = None
    counts: bool = False  # whether it takes -5
    clusters: bool = True  # whether -ab means -a -b; else options are words after one dash

    @property
    def rule(self) -> str:
        return f"{self.words} *"

    def matches(self, rest: Sequence[str]) -> bool:
        """Whether these words after its own are all known."""
        arguments: list[str] = []
        words = iter(rest)
        for word in words:
            if word == "--" and self.clusters:
                arguments += words
            elif not word.startswith("-"):
                arguments.append(word)
            elif word in self.values:
                value = next(words, None)
                if value is None or not self.values[word].fullmatch(value):
                    return False
            elif not self._is_option(word):
                return False
        return self._are_arguments(arguments)

    def _are_arguments(self, arguments: Sequence[str]) -> bool:
        if self.first is not None and arguments:
            if not self.first.fullmatch(arguments[0]):
                return False
            arguments = arguments[1:]
        return all(any(kind.fullmatch(one) for kind in self.arguments) for one in arguments)

    def _is_option(self, word: str) -> bool:
        """Whether it is a known flag, flags in one word, or an option with its value."""
        flags = self.flags.split()
        if word in flags or (self.counts and _NUMBER.fullmatch(word[1:])):
            return True
        if word.startswith("--") or not self.clusters:
            name, equals, value = word.partition("=")
        else:
            name, equals, value = word[:2], word[2:], word[2:]
            if all(f"-{letter}" in flags for letter in word[1:]):
                return len(word) > 1
        kind = self.values.get(name)
        return bool(equals) and kind is not None and kind.fullmatch(value) is not None


_OF_LOG = (
    "--oneline --stat --shortstat --name-only --name-status --graph --decorate --all --no-merges "
    "--merges --reverse --abbrev-commit --no-color -p --patch"
)
_OF_DIFF = "--stat --shortstat --name-only --name-status --cached --staged --no-color -w -b"
_OF_PYTEST = "-q -v -vv -x -s -l --lf --ff --sw --quiet --verbose --exitfirst --last-failed"
_PYTEST_VALUES = {"-k": _NAMES, "-m": _NAMES, "-n": _NUMBER, "--maxfail": _NUMBER}
_PROJECT = "this project's own code"

FORMS = (
    Form(
        "git status",
        "`git status`, of any files here, with options that change what it shows",
        "-s --short -b --branch --long --porcelain --show-stash --ignored",
        arguments=(_PATH,),
    ),
    Form(
        "git log",
        "`git log`, of any revisions and files here, with options that change what it shows",
        _OF_LOG,
        {
            "-n": _NUMBER,
            "--max-count": _NUMBER,
            "--since": _TEXT,
            "--until": _TEXT,
            "--author": _TEXT,
            "--grep": _TEXT,
        },
        (_REVISION, _PATH),
        counts=True,
    ),
    Form(
        "git show",
        "`git show`, of any revisions here, with options that change what it shows",
        "--oneline --stat --name-only --name-status --no-color",
        arguments=(_REVISION,),
    ),
    Form(
        "git diff",
        "`git diff`, of any revisions and files here, with options that change what it shows",
        _OF_DIFF,
        arguments=(_REVISION, _PATH),
    ),
    Form(
        "git branch",
        "`git branch`, listing branches",
        "-a --all -r --remotes -v -vv --list --show-current --no-color",
    ),
    Form(
        "git add",
        "`git add`, staging any files here",
        "-A --all -u --update -v --verbose -n --dry-run",
        arguments=(_PATH,),
    ),
    Form(
        "git commit",
        "`git commit` with any message, and the commit hooks of this repository",
        "-a --all -q --quiet",
        {"-m": _MESSAGE, "-am": _MESSAGE},
    ),
    Form("pwd", "`pwd`"),
    Form("ls", "`ls`, of any directories here", "-a -A -l -h -t -r -R -S -1 -F", {}, (_PATH,)),
    Form("cat", "`cat`, of any files here", "-n", {}, (_PATH,)),
    Form("head", "`head`, of any files here", "-q", {"-n": _NUMBER}, (_PATH,), counts=True),
    Form(
        "tail",
        "`tail`, of any files here, without waiting for more",
        "-q",
        {"-n": _NUMBER},
        (_PATH,),
    ),
    Form("wc", "`wc`, of any files here", "-l -w -c -m", {}, (_PATH,)),
    Form(
        "grep",
        "`grep`, for anything in any files here",
        "-r -n -i -l -c -w -E -F -v -o -h -H",
        {"-A": _NUMBER, "-B": _NUMBER, "-C": _NUMBER, "--include": _GLOB},
        (_PATH,),
        _PATTERN,
    ),
    Form(
        "rg",
        "`rg`, for anything in any files here",
        "-n -i -l -c -w -F -S -o --no-heading",
        {"-A": _NUMBER, "-B": _NUMBER, "-C": _NUMBER, "-g": _GLOB, "-t": _NAMES},
        (_PATH,),
        _PATTERN,
    ),
    Form(
        "find",
        "`find`, listing files here by name and kind",
        "-print",
        {
            "-name": _GLOB,
            "-iname": _GLOB,
            "-type": re.compile("[fdl]"),
            "-maxdepth": _NUMBER,
            "-mindepth": _NUMBER,
        },
        (_PATH,),
        clusters=False,
    ),
    *(
        Form(
            words,
            f"`{words}`, of any tests here, which run {_PROJECT}",
            f"{_OF_PYTEST}",
            {**_PYTEST_VALUES, "--tb": re.compile("short|long|line|native|no|auto")},
            (_TEST,),
        )
        for words in ("pytest", "python -m pytest", "python3 -m pytest")
    ),
    *(
        Form(
            words,
            f"`{words}`, of any packages and tests here, which runs {_PROJECT}",
            "--release --workspace --all-targets --all-features --lib --bins --tests -q -v",
            {"-p": re.compile(r"[\w-]{1,100}", re.ASCII)},
            (re.compile(r"[A-Za-z0-9_]+(?:::[A-Za-z0-9_]+)*"),),
        )
        for words in ("cargo test", "cargo check", "cargo build")
    ),
    Form(
        "go test",
        f"`go test`, of any packages and tests here, which runs {_PROJECT}",
        "-v -race -short -cover",
        {"-run": _NAMES, "-count": _NUMBER},
        (_PACKAGES,),
        clusters=False,
    ),
    Form("go vet", "`go vet`, of any packages here", "-v", {}, (_PACKAGES,), clusters=False),
    Form(
        "ruff check",
        "`ruff check`, of any files here, also with corrections (`--fix`)",
        "--fix --diff -q",
        {},
        (_PATH,),
    ),
    Form(
        "ruff format",
        "`ruff format`, which rewrites any files here",
        "--check --diff -q",
        {},
        (_PATH,),
    ),
)
_BY_RULE = {form.rule: form for form in FORMS}


def form_of_rule(text: str) -> Form | None:
    """The form that a rule's text names, such as `git log *`."""
    return _BY_RULE.get(" ".join(text.split()))


def form_of(command: str) -> Form | None:
    """The form that covers this command, if there is one."""
    words = literal_words(command)
    for form in FORMS if words else ():
        own = form.words.split()
        if words[: len(own)] == own and form.matches(words[len(own) :]):
            return form
    return None


def literal_words(command: str) -> list[str]:
    """The words of a command that no shell would change; empty if it has anything else."""
    text, words, at = command.strip(" "), list[str](), 0
    if len(text) > _MAX_CHARS:
        return []
    while at < len(text):
        word = _WORD.match(text, at)
        assert word is not None, "it matches nothing, too"
        if word.end() == at or (word.end() < len(text) and text[word.end()] != " "):
            return []
        quoted = word["single"] if word["single"] is not None else word["double"]
        words.append((word["bare"] or "") + (quoted or ""))
        at = word.end()
        while at < len(text) and text[at] == " ":
            at += 1
    return [] if words and "=" in words[0] else words
