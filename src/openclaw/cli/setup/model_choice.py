"""Lets a person choose a model: offers, asks, checks and stores it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count

import anyio

from openclaw.cli.commands.secrets import hidden_line
from openclaw.cli.environment import Environment, text_of
from openclaw.cli.terminal import fitted
from openclaw.config.agent_schema import ProviderConfig
from openclaw.core.errors import InvalidRequest, ModelUnavailable
from openclaw.core.installed import install_command
from openclaw.mcp_client.bounds import printable
from openclaw.models import choose
from openclaw.models.provider_check import KeyNotChecked, KeyRefused, Provider
from openclaw.secrets.refs import Secret

ALL, NONE, AUTO = "all", "none", "auto"
_OWN = "address"
OPENAI_API = "openai-completions"
Providers = Mapping[str, ProviderConfig]


class SetupPrompter:
    """Asks at a terminal. `lines` are a question's answers, each with the line that shows it.

    Raises `EOFError` if the person wants to stop.
    """

    def __init__(self, env: Environment) -> None:
        self._env = env

    def one(self, question: str, lines: Mapping[str, str], *, other: str) -> str:
        """One of the lines, by default the first; or any text with a slash."""
        self._show(question, lines)
        numbers = "1" if len(lines) == 1 else f"1 to {len(lines)}"
        while True:
            said = self.text(f"  a number, or {other} [1]: ") or "1"
            if "/" in said:
                return said
            try:
                [chosen] = chosen_names(said, lines, "number")
            except (InvalidRequest, ValueError):
                self.say(f"  Please enter {numbers}, or {other}")
            else:
                return chosen

    def several(self, question: str, lines: Mapping[str, str], *, suggested: str) -> list[str]:
        self._show(question, lines)
        while True:
            said = self.text(f"  numbers, {ALL} or {NONE} [{suggested}]: ") or suggested
            try:
                return chosen_names(said, lines, "number")
            except InvalidRequest as error:
                self.say(f"  {error.message}")

    def yes(self, question: str) -> bool:
        return self.text(f"{question} [Y/n] ").casefold() in ("", "y", "yes")

    def text(self, prompt: str) -> str:
        self._env.stdout.write(prompt)
        self._env.stdout.flush()
        line = text_of(self._env.stdin.readline)
        if not line:  # Ctrl-D
            raise EOFError
        return line.strip()

    def hidden(self, prompt: str) -> str:
        line = hidden_line(self._env, prompt)
        if line:
            self._env.redactor.register(line)
        return line

    def say(self, text: str, *, hang: int = 0) -> None:
        self._env.say(fitted(text, self._env.stdout, hang=hang))

    def _show(self, question: str, lines: Mapping[str, str]) -> None:
        self.say(f"\n{question}")
        for number, line in enumerate(lines.values(), 1):
            self.say(f"  {number}. {line}", hang=5)


def chosen_names(said: str, known: Iterable[str], what: str, hint: str | None = None) -> list[str]:
    """The names that this means: `all`, `none`, or numbers or names separated by commas or spaces."""
    names = list(known)
    if said.casefold() == ALL:
        return names
    if said.casefold() == NONE:
        return []
    chosen: list[str] = []
    for word in said.replace(",", " ").split():
        if word.isascii() and word.isdigit() and 1 <= int(word) <= len(names):
            chosen.append(names[int(word) - 1])
        elif word in names:
            chosen.append(word)
        else:
            raise InvalidRequest(f"there is no {what} {word!r}", hint=hint)
    return list(dict.fromkeys(chosen))


@dataclass(frozen=True, slots=True)
class ModelOffer:
    """A model that could be used, and why.

    Its key is in the environment variable `variable`, or is `pasted` and to be stored under that name.
    `base_url` is for a provider that the configuration gets with it.
    """

    ref: str
    reason: str = ""
    variable: str | None = None
    pasted: Secret | None = None
    base_url: str | None = None

    @property
    def reference(self) -> str | None:
        place = "store" if self.pasted else "env"
        return f"secret://{place}/{self.variable}" if self.variable else None


def offered_models(env: Environment) -> tuple[ModelOffer, ...]:
    """Models with a key in the environment, else local ones and every provider.

    The embedded one comes before those that still need a key, and its line says what it can't do.
    """
    keyed: list[ModelOffer] = []
    others: list[ModelOffer] = []
    for known in choose.known_providers().values():
        ref = f"{known.name}/{known.default_model}"
        extra = choose.missing_extra(known.api)
        lacking = f"; first: {install_command(extra)}" if extra else ""
        variable = next((name for name in known.key_variables if env.environ.get(name)), None)
        if variable is not None:
            keyed.append(ModelOffer(ref, f"{variable} is set{lacking}", variable))
        elif known.key_page:
            others.append(ModelOffer(ref, f"paste a key from {known.key_page}{lacking}"))
    limits = "small talk and simple tool requests; it cannot reason, write code or summarise"
    ref = f"{choose.LOCAL_PROVIDER}/{choose.DEFAULT_LOCAL_MODEL}"
    local = ModelOffer(ref, f"embedded, no account, 98 MB: {limits}")
    keyed.sort(key=lambda one: "; first: " in one.reason)
    return (*keyed, local) if keyed else (*anyio.run(_running, env), local, *others)


async def _running(env: Environment) -> list[ModelOffer]:
    studio = choose.known_providers()["lmstudio"].base_url
    offers: list[ModelOffer] = []
    for provider, title, models in (
        ("ollama", "Ollama", await choose.ollama_models(choose.ollama_url(env.environ))),
        ("lmstudio", "LM Studio", await choose.lmstudio_models(studio)),
    ):
        chat = next((name for name in models if "embed" not in name), None)
        if chat is not None:
            more = f", with {len(models)} models" if len(models) > 1 else ""
            offers.append(ModelOffer(f"{provider}/{chat}", f"{title} is running here{more}"))
    return offers


def chosen_model(
    said: str | None,
    env: Environment,
    asker: SetupPrompter | None,
    now: str | None,
    providers: Providers,
) -> ModelOffer | None:
    """The model to write; None if the file keeps its model, `now`, or gets none."""
    offers = offered_models(env)
    if said is None and asker is None:
        # Without a key nothing is written, so that a key added later is used.
        return offers[0] if offers[0].variable and now is None else None
    named = said is not None
    while True:
        if said is None and asker is not None:
            question, other = "Which model do you want to use?", "provider/model, or an address"
            said = asker.one(question, _lines(offers, now), other=other)
        assert said is not None
        if asker is not None and (said == _OWN or _is_address(said)):
            if (own := _own_server(env, asker, said, providers)) is not None:
                return own
            said = None
            continue
        if said == AUTO or (not named and said == now):
            return None
        offer = next((one for one in offers if one.ref == said), ModelOffer(said))
        try:
            if (keyed := _with_key(env, asker, offer, providers)) is not None:
                return keyed
        except ModelUnavailable as error:
            if named or asker is None:
                raise InvalidRequest(error.message, hint=error.hint) from error
            asker.say(f"  {error.message}; {error.hint}", hang=2)
        said = None  # there is no such model, or no key: choose again


def _lines(offers: Sequence[ModelOffer], now: str | None) -> dict[str, str]:
    reasons = {now: "current"} if now is not None else {}
    reasons |= {one.ref: one.reason for one in offers if one.ref != now}
    reasons[_OWN] = "another server that speaks OpenAI's API: vLLM, llama.cpp, …"
    if now is None and not offers[0].variable:
        order = "a key in the environment, then Ollama, then the embedded model"
        reasons[AUTO] = f"decide at every start: {order}"
    return {ref: f"{ref}  ({reason})" for ref, reason in reasons.items()}


def _with_key(
    env: Environment, asker: SetupPrompter | None, offer: ModelOffer, providers: Providers
) -> ModelOffer | None:
    """The model and where its key is, after asking for it if necessary; None without a key."""
    candidate = choose.resolve(offer.ref, providers, env.environ)
    if offer.variable is None and (candidate.api_key or "").startswith("secret://env/"):
        offer = replace(offer, variable=str(candidate.api_key).removeprefix("secret://env/"))
    if asker is None or candidate.api_key or not candidate.key_hint:
        return offer
    known = choose.known_providers()[candidate.provider]
    asker.say(f"\nCreate a key at {known.key_page} and paste it here; it won't be shown.")
    while key := asker.hidden("  key (Enter to go back): "):
        try:
            anyio.run(Provider(candidate, key, env.environ).check_key)
        except KeyRefused as error:
            asker.say(f"  The provider refused this key ({printable(str(error))}).")
            continue
        except KeyNotChecked as error:
            asker.say(f"  The key could not be checked ({printable(str(error))}).")
            if not asker.yes("  Use it anyway?"):
                continue
        else:
            asker.say("  The key works.")
        return replace(offer, variable=known.key_variables[0], pasted=Secret(key))
    return None


def _is_address(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def _own_server(
    env: Environment, asker: SetupPrompter, said: str, providers: Providers
) -> ModelOffer | None:
    """A model of the person's own server; None if they go back."""
    address = said if _is_address(said) else ""
    prompt = "\n  its address, such as http://127.0.0.1:8000/v1 (Enter to go back): "
    while address := address or asker.text(prompt):
        key = asker.hidden("  its key (Enter if it needs none): ")
        base = address.rstrip("/")
        base += "/v1" if base.count("/") == 2 else ""  # it has no path
        taken = {name for name, one in providers.items() if one.base_url != base}
        names = chain(["own"], (f"own-{number}" for number in count(2)))
        name = next(one for one in names if one not in taken)
        candidate = choose.Candidate(name, "", OPENAI_API, base)
        try:
            models = anyio.run(Provider(candidate, key or None, env.environ).models)
            if not models:
                raise KeyNotChecked("it has no models")
        except (KeyRefused, KeyNotChecked) as error:
            asker.say(f"  That did not work ({printable(str(error))}).", hang=2)
            address = ""
            continue
        lines = {one: printable(one) for one in models}
        model = asker.one("Which of its models?", lines, other="a name")
        variable = f"{name.upper().replace('-', '_')}_API_KEY" if key else None
        pasted = Secret(key) if key else None
        return ModelOffer(f"{name}/{model}", "", variable, pasted, base)
    return None
