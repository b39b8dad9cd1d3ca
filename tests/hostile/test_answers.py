"""No image, link or form gets out of an answer, whatever renders it, whole or streamed."""

import random
from pathlib import Path

import httpx2
import pytest
from markdown_it import MarkdownIt
from tests.interaction.gateway.conftest import chat
from tests.interaction.gateway.test_native import events_of
from tests.interaction.gateway.test_openai_stream import pieces
from tests.support.answer_attacks import ATTACKS, KNOWN, attack, is_allowed
from tests.support.fake_server import server_entry
from tests.support.gateway_kit import Installation
from tests.support.renderers import Renderers, Use, renderers

from openclaw.policy.dataflow.answers import AnswerStream
from openclaw.testing.scripted_model import Step, scripted_model

PAGES = server_entry(
    {"tools": [{"name": "read_page", "inputSchema": {}, "annotations": {"readOnlyHint": True}}]}
)
READ = (("mcp_fake_read_page", {"page": "a page that somebody wrote"}),)
SAID = f"Look at {' and '.join(KNOWN)}."


def live_addresses(answer: str, rendered: Renderers) -> list[Use]:
    tokens = MarkdownIt().parse(answer)
    code = any(token.type in ("fence", "code_block") for token in tokens)
    return [
        use
        for use in rendered.uses(answer)
        # What python-markdown takes for fenced code is not what CommonMark says.
        if not is_allowed(use) and not (code and use.renderer == "python-markdown")
    ]


def streamed(answer: str, rng: random.Random) -> str:
    stream = AnswerStream(KNOWN)
    parts: list[str] = []
    while answer:
        size = rng.randint(1, 5)
        parts.append(stream.feed(answer[:size]))
        answer = answer[size:]
    return "".join(parts) + stream.finish()


@pytest.mark.parametrize("answer", ATTACKS)
def test_no_known_attack_survives(answer: str) -> None:
    with renderers() as rendered:
        whole = AnswerStream(KNOWN).whole(answer)
        assert live_addresses(whole, rendered) == []


@pytest.mark.parametrize("seed", range(4))
def test_nothing_generated_survives_and_pieces_make_no_difference(seed: int) -> None:
    rng = random.Random(seed)
    with renderers() as rendered:
        for _ in range(300):
            answer = attack(rng)
            whole = AnswerStream(KNOWN).whole(answer)
            assert streamed(answer, rng) == whole, answer
            assert AnswerStream(KNOWN).whole(whole) == whole, answer
            assert live_addresses(whole, rendered) == [], answer


async def test_no_attack_gets_out_of_the_gateway(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    installation = Installation(state)
    steps = [step for text in ATTACKS for step in (Step(calls=READ), Step(text=text)) * 4]
    answers: list[str] = []
    async with scripted_model(steps) as model:
        installation.configure(model.url, {"fake": PAGES}, dataflow={"mode": "ask"})
        async with (
            installation.here() as info,
            httpx2.AsyncClient(base_url=info.url, trust_env=False, timeout=90) as client,
        ):
            client.headers["authorization"] = f"Bearer {installation.token}"
            for _ in ATTACKS:
                native = await client.post("/api/messages", json={"text": SAID})
                events = events_of(native.text)
                deltas = [data["text"] for name, data in events if name == "text_delta"]
                plain = await client.post("/api/messages", json={"text": SAID, "stream": False})
                stream = await client.post("/v1/chat/completions", json=chat(SAID, stream=True))
                once = await client.post("/v1/chat/completions", json=chat(SAID))
                answers += ["".join(deltas), events[-1][1]["text"], plain.json()["text"]]
                answers += [pieces(stream.text)[0]]
                answers += [once.json()["choices"][0]["message"]["content"]]
    assert not any("Error" in answer or not answer.strip() for answer in answers)
    with renderers() as rendered:
        assert [use for answer in answers for use in live_addresses(answer, rendered)] == []
