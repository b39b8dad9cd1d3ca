"""A vendor's account on loopback: it checks each request before it answers."""

import base64
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace

from openclaw.testing.scripted_model import Request, Script, ScriptedModel, scripted_model
from openclaw.testing.scripted_wire import Api, Step
from tests.support.vendors import (
    anthropic_messages,
    google_generate,
    openai_chat,
    openai_responses,
)
from tests.support.vendors.rules import Conversation, Refused

_RULES: Mapping[Api, Callable[[Conversation], None]] = {
    "chat": openai_chat.check,
    "responses": openai_responses.check,
    "anthropic": anthropic_messages.check,
    "google": google_generate.check,
}


def refusal(api: Api, request: Conversation) -> Refused | None:
    try:
        _RULES[api](request)
    except Refused as refused:
        return refused
    return None


@dataclass
class Vendor(Script):
    """Answers as its script says, unless the vendor would refuse the request.

    What it signs is known to this account alone. `refused` has what it refused, by itself.
    """

    account: str = "account"
    issued: set[str] = field(default_factory=set[str])
    refused: list[Refused] = field(default_factory=list[Refused])

    def answer(self, request: Request) -> Step:
        conversation = Conversation(request.body, request.model, frozenset(self.issued))
        refused = refusal(request.api, conversation)
        if refused is not None:
            self.requests.append(request)
            self.refused.append(refused)
            return Step(status=refused.status, message=refused.message, code=refused.code)
        return self._signed(self.step_for(request))

    def step_for(self, request: Request) -> Step:
        """The answer to a request that is accepted."""
        return super().answer(request)

    def _signed(self, step: Step) -> Step:
        number = len(self.requests)
        signature = base64.b64encode(f"{self.account} {number}".encode()).decode()
        self.issued.update((signature, f"rs_answer_{number}", f"msg_answer_{number}"))
        self.issued.update(f"fc_call_{number}_{index}" for index in range(len(step.calls)))
        return replace(step, signature=signature)


def vendor(script: Vendor) -> AbstractAsyncContextManager[ScriptedModel]:
    return scripted_model(script=script)
