"""What the user is asked, and what they answer: one shape for every front end."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

ONCE, SESSION, ALWAYS, NO = "once", "session", "always", "no"
ACCEPT, DECLINE, CANCEL = "accept", "decline", "cancel"  # MCP's words for answers to a form


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the answers that a question offers; the calls are made if it `allows`."""

    id: str
    label: str
    allows: bool = True


YES_OR_NO = (Choice(ONCE, "Once"), Choice(NO, "No", allows=False))


@dataclass(frozen=True, slots=True)
class AskedCall:
    """A tool call that is made only if the user agrees.

    `arguments` hide known secrets. `digest` is the same for the same call of the same tool, and
    changes with the tool's declaration.
    """

    id: str
    name: str
    label: str
    arguments: Mapping[str, Any]
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Form:
    """What an MCP server wants to know: values that fit `schema`, or a visit to `url`."""

    server: str
    message: str
    schema: Mapping[str, Any] | None = None
    url: str | None = None
    elicitation_id: str | None = None

    @property
    def params(self) -> dict[str, Any]:
        """MCP's parameters for asking this."""
        if self.url is not None:
            params = {"mode": "url", "message": self.message, "url": self.url}
            return params | {"elicitationId": self.elicitation_id or ""}
        schema = self.schema or {"type": "object", "properties": {}}
        return {"mode": "form", "message": self.message, "requestedSchema": schema}


@dataclass(frozen=True, slots=True)
class Question:
    """What the user must decide or say before the agent can continue.

    It is about tool calls, or it is an MCP server's `form`. `title` is one line; `body` has the
    calls in full, ready to be shown: a front end changes and cuts nothing. A front end offers all
    `choices`, or the first that allows and the first that refuses if it can only ask for yes or no.
    `doubts` say which parts of the calls did not come from the user: consent to the tools does not
    cover those.
    """

    title: str
    body: str = ""
    calls: tuple[AskedCall, ...] = ()
    choices: tuple[Choice, ...] = YES_OR_NO
    doubts: tuple[str, ...] = ()
    form: Form | None = None

    @property
    def call(self) -> AskedCall:
        """The call that led to the question."""
        return self.calls[0]

    def allowed_by(self, answer: "Answer") -> bool:
        """Whether this answer is a clear yes; one that was not offered is a no."""
        return any(choice.allows and choice.id == answer.choice for choice in self.choices)

    def plain(self, yes: bool) -> "Answer":
        """The answer of somebody who could only say yes or no."""
        return Answer(next((one.id for one in self.choices if one.allows is yes), NO))


@dataclass(frozen=True, slots=True)
class Answer:
    """The id of the user's choice, or ACCEPT, DECLINE or CANCEL for a form.

    The model reads the `reason` of a refusal. `content` has a form's values.
    """

    choice: str
    reason: str = ""
    content: Mapping[str, Any] | None = None


NOBODY = Answer("")  # nobody is there to be asked
WAITS = Answer("waits")  # the question is stored until somebody answers it
DECLINED = Answer(DECLINE)

Ask = Callable[[Question], Awaitable[Answer]]  # asks the user
# Asks the user for an MCP server: takes its name and its request, and returns MCP's result.
Elicit = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


def form_question(server: str, params: Mapping[str, Any]) -> Question:
    by_url = params.get("mode") == "url"
    message, elicitation = str(params.get("message") or ""), params.get("elicitationId")
    form = Form(
        server,
        message,
        None if by_url else params.get("requestedSchema"),
        str(params.get("url")) if by_url else None,
        None if elicitation is None else str(elicitation),
    )
    return question_of(form)


def question_of(form: Form) -> Question:
    return Question(f"MCP server '{form.server}' asks: {form.message}", form=form)


def elicitation_result(answer: Answer) -> dict[str, Any]:
    """MCP's result for this answer to a form."""
    known = answer.choice in (ACCEPT, DECLINE, CANCEL)
    result: dict[str, Any] = {"action": answer.choice if known else DECLINE}
    return result if answer.content is None else {**result, "content": answer.content}


def form_answer(result: Mapping[str, Any]) -> Answer:
    """The answer in MCP's result; one that is not valid declines."""
    content: Any = result.get("content")
    if result.get("action") not in (ACCEPT, DECLINE, CANCEL):
        return DECLINED
    if not isinstance(content, Mapping | None):
        return DECLINED
    return Answer(str(result["action"]), content=content)  # pyright: ignore[reportUnknownArgumentType] - any JSON


def elicit_with(ask: Ask) -> Elicit:
    async def elicit(server: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return elicitation_result(await ask(form_question(server, params)))

    return elicit
