"""A transcription service on loopback that speaks OpenAI's and Deepgram's HTTP APIs.

It checks what the real ones check and keeps what it was sent:

    with speech_service(key="k", words="Good morning.") as service:
        ...  # service.url, service.requests
"""

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from tests.support.fake_http import serving


@dataclass(frozen=True, slots=True)
class Recording:
    """One request as the service understood it."""

    api: str
    fields: dict[str, str]
    mime_type: str
    data: bytes


@dataclass
class SpeechService:
    """The service: what it knows and what it saw."""

    key: str
    words: str
    url: str = ""
    broken: bool = False
    requests: list[Recording] = field(default_factory=list[Recording])


class _Handler(BaseHTTPRequestHandler):
    service: SpeechService

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path = urlsplit(self.path).path
        if self.service.broken:
            return self._answer(200, b"<html>")
        if path == "/v1/audio/transcriptions":
            return self._openai(body)
        if path == "/v1/listen":
            return self._deepgram(body)
        return self._json(404, {"error": {"message": "no such path"}})

    def _openai(self, body: bytes) -> None:
        if self.headers["Authorization"] != f"Bearer {self.service.key}":
            return self._json(401, {"error": {"message": "Incorrect API key provided"}})
        parts = _form(self.headers["Content-Type"], body)
        fields = {name: data.decode() for name, (_, data) in parts.items() if name != "file"}
        if "file" not in parts or "model" not in fields:
            return self._json(400, {"error": {"message": "file and model are required"}})
        mime_type, data = parts["file"]
        self.service.requests.append(Recording("openai", fields, mime_type, data))
        return self._json(200, {"text": self.service.words})

    def _deepgram(self, body: bytes) -> None:
        if self.headers["Authorization"] != f"Token {self.service.key}":
            return self._json(401, {"err_code": "INVALID_AUTH", "err_msg": "Invalid credentials."})
        query = {name: value for name, [value] in parse_qs(urlsplit(self.path).query).items()}
        recording = Recording("deepgram", query, self.headers["Content-Type"], body)
        self.service.requests.append(recording)
        best = {"transcript": self.service.words, "confidence": 0.9}
        return self._json(200, {"results": {"channels": [{"alternatives": [best]}]}})

    def _json(self, status: int, body: dict[str, Any]) -> None:
        self._answer(status, json.dumps(body).encode())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def _form(content_type: str, body: bytes) -> dict[str, tuple[str, bytes]]:
    head = f"Content-Type: {content_type}\r\n\r\n".encode()
    parts = cast("list[Message]", BytesParser().parsebytes(head + body).get_payload())
    return {
        str(part.get_param("name", header="content-disposition")): (
            part.get_content_type(),
            cast("bytes", part.get_payload(decode=True)),
        )
        for part in parts
    }


@contextmanager
def speech_service(key: str = "speech-key-0123456789", words: str = "") -> Generator[SpeechService]:
    """The service, listening until the end."""
    service = SpeechService(key, words)
    handler = type("Handler", (_Handler,), {"service": service})
    with serving(handler) as service.url:
        yield service
