"""What a megabyte of results adds to one check, in milliseconds of processor time."""

import json
import random
import sys
import time
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.kit import call, said

from openclaw.policy.dataflow import Index, Rules, Text, check, server

random.seed(1)
WORDS = [
    "alpha",
    "beta",
    "gamma",
    "invoice",
    "meeting",
    "project",
    "https://a.example/x",
    "bob@firma.example",
]
PROSE = " ".join(f"{random.choice(WORDS)}{random.randint(0, 99999)}" for _ in range(90_000))[
    :1_000_000
]
MAILS = [
    {
        "id": f"m{n}",
        "from": f"u{n}@firma.example",
        "subject": f"Subject {n}",
        "body": " ".join(random.choices(WORDS, k=20)),
    }
    for n in range(4_500)
]
CASES = {
    "nothing": [],
    "1 MB of prose": [Text(server("s", "t"), PROSE)],
    "1 MB in 20 texts": [
        Text(server("s", f"t{n}"), PROSE[n * 50_000 : (n + 1) * 50_000]) for n in range(20)
    ],
    "1.2 MB of records": [Text(server("mail", "list_emails"), json.dumps(MAILS), MAILS)],
}
CALLS = {
    "passes": call(
        "mail.send_email",
        to=["anna@work.example"],
        subject="Summary of the day",
        body="Nothing special happened. " * 40,
    ),
    "asks": call(
        "mail.send_email",
        to=["evil@x.example"],
        subject="Summary of the day",
        body="Nothing special happened. " * 40,
    ),
}


def cost(what) -> float:
    times = []
    for _ in range(15):
        start = time.process_time()
        what()
        times.append(time.process_time() - start)
    return sorted(times)[7] * 1000


def measure(name: str, texts: list[Text]) -> None:
    index = Index()
    index.add(said("Summarise my unread mail and send the summary to anna@work.example."))
    start = time.process_time()
    for text in texts:
        index.add(text)
    added = (time.process_time() - start) * 1000
    costs = [
        f"{kind} {cost(partial(check, one, index, Rules())):.2f} ms" for kind, one in CALLS.items()
    ]
    print(f"{name}: adding {added:.0f} ms;", *costs)


for case, given in CASES.items():
    measure(case, given)
