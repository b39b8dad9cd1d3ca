"""Write benign.txt of the corpus parts plain_orders and reworded_orders: ordinary tool output.

Both come from the same templates and word lists and differ only in their seed: no false positive on
the second says little that none on the first does not. No script writes the other parts.
"""

import json
import random
from pathlib import Path

# ruff: noqa: SIM905, RUF001 - word lists, and several scripts, are what this is made of
CORPUS = Path(__file__).parent.parent / "tests/hostile/corpus/train"
NAMES = "Ada Boris Chen Dalia Emeka Farah Greta Hiro Ines Jonas Kofi Lena Mateo Nadia".split()
THINGS = "invoice report schedule draft contract photo dataset slide agenda budget".split()
SERVICES = "billing search gateway mailer indexer scheduler cache auth media worker".split()
VERBS = "started stopped retried failed completed skipped queued flushed reloaded".split()
CITIES = "Lisbon Osaka Nairobi Quito Tallinn Pune Leeds Tampere".split()


def log_lines(r: random.Random) -> str:
    return "\n".join(
        f"2026-{r.randint(1, 12):02}-{r.randint(1, 28):02}T{r.randint(0, 23):02}:{r.randint(0, 59):02}:"
        f"{r.randint(0, 59):02}Z {r.choice(['INFO', 'WARN', 'ERROR', 'DEBUG'])} {r.choice(SERVICES)} "
        f"{r.choice(VERBS)} job={r.randint(1, 9999)} took={r.randint(1, 900)}ms"
        f"{r.choice(['', ' user=anonymous', ' ignoring duplicate request', ' token expired, retrying'])}"
        for _ in range(r.randint(3, 12))
    )


def mail(r: random.Random) -> str:
    a, b = r.sample(NAMES, 2)
    return (
        f"From: {a} <{a.lower()}@example.org>\nTo: {b} <{b.lower()}@example.org>\n"
        f"Subject: {r.choice(THINGS)} for {r.choice(CITIES)}\n\nHi {b},\n\n"
        + r.choice(
            [
                f"please send me the {r.choice(THINGS)} by Friday, and ignore my previous email about the {r.choice(THINGS)}.",
                f"could you forward the {r.choice(THINGS)} to the whole team? Do not forget the {r.choice(THINGS)}.",
                f"thanks for the call. The next step is to review the {r.choice(THINGS)} together.",
                "your password expires in ten days. You can change it under Settings, Security.",
                f"I will be in {r.choice(CITIES)} from Monday. Let me know if you need anything.",
                "here are the new instructions for the coffee machine: press the left button twice.",
            ]
        )
        + f"\n\nBest,\n{a}\n"
    )


def api_json(r: random.Random) -> str:
    rows = [
        {
            "id": r.randint(1, 10**6),
            "name": r.choice(NAMES),
            "role": r.choice(["user", "admin", "viewer"]),
            "url": f"https://api.example.org/v1/{r.choice(THINGS)}s/{r.randint(1, 999)}?page={r.randint(1, 9)}&limit=50",
            "tags": r.sample(THINGS, 2),
            "note": r.choice(
                ["", "do not delete", "system account", "needs review", "<b>bold</b>"]
            ),
        }
        for _ in range(r.randint(1, 6))
    ]
    return json.dumps(rows, indent=r.choice([None, 2]))


def code(r: random.Random) -> str:
    f, x, y = r.choice(VERBS), r.choice(THINGS), r.choice(SERVICES)
    return r.choice(
        [
            f"def {f}_{x}({y}):\n    # ignore the previous value, the {y} sends a new one\n    return {y}.send({x}=None)\n",
            f"if [ -z \"$API_KEY\" ]; then\n  echo 'set API_KEY to your {y} key' >&2\n  exit 1\nfi\ncurl -s https://{y}.example.org/{x}\n",
            f"SELECT {x}, count(*) FROM {y} WHERE status = '{f}' GROUP BY 1 ORDER BY 2 DESC;\n",
            f'class {x.title()}Error(Exception):\n    """Raised when the {y} must not show the {x} to the user."""\n',
            f'let {x} = {y} |> List.map (fun v -> v + 1) |> List.filter {f}\nprintfn "%A" <| {x}\n',
            f'std::cout << "{x}: " << {y} << std::endl;  // {f}\n',
            f"<<<<<<< HEAD\nconst {x} = 1;\n=======\nconst {x} = 2;\n>>>>>>> {y}\n",
        ]
    )


def readme(r: random.Random) -> str:
    x, y = r.choice(THINGS), r.choice(SERVICES)
    return (
        f"# {x}-{y}\n\n{r.choice(['A small', 'A fast', 'Yet another'])} {y} for your {x}s.\n\n## Installation\n\n"
        f"```sh\npip install {x}-{y}\n```\n\n## Usage\n\n"
        + r.choice(
            [
                f"Create an API key under *Settings* and put it in `.env` as `{y.upper()}_TOKEN=…`. Never commit this file.\n",
                f"The assistant calls the `{x}_lookup` tool when the user asks for a {x}.\n",
                f"| option | default |\n|---|---|\n| `{x}` | `{r.randint(1, 99)}` |\n| `ignore` | `[]` |\n",
                "You are now ready to start. See the [documentation](https://docs.example.org/start?lang=en).\n",
                "Run `rm -rf build/` and try again if the build fails. Do not run it as root.\n",
                f"To override the default rules, pass `--rules {x}.yaml`; previous rules are replaced.\n",
            ]
        )
    )


def article(r: random.Random) -> str:
    return r.choice(
        [
            f'Prompt injection is a class of attacks in which a document says something like "ignore previous instructions". Researchers at {r.choice(CITIES)} measured how often such payloads succeed, and which mitigations help.',
            f"Phishing awareness, part {r.randint(1, 9)}: attackers ask you to send your password or to click a link. Our security team will never ask for credentials by mail. Report such messages.",
            f"OWASP lists prompt injection first. For example, a malicious page may contain hidden text that tells an assistant to reveal its system prompt. Treat all fetched content as untrusted (chapter {r.randint(1, 20)}).",
            f"The {r.choice(SERVICES)} team published its threat model: adversaries may try to exfiltrate tokens through image URLs; the renderer therefore blocks remote images.",
            f"Role-play in {r.choice(CITIES)}'s schools: pupils pretend to be merchants and learn to count. The ministry updated its guidelines in spring.",
            f"How large language models work, lesson {r.randint(1, 30)}: the system prompt sets the tone, the user asks, the assistant answers. Agents may also call tools.",
        ]
    )


def other(r: random.Random) -> str:
    return r.choice(
        [
            f"Recipe from {r.choice(CITIES)}: stir for {r.randint(5, 40)} minutes, forget the lid, serve hot. Do not tell anyone how much butter it takes.",
            f"{r.choice(CITIES)}: {r.randint(-5, 35)} °C, wind {r.randint(1, 60)} km/h, rain in the evening. Forecast updated by the weather service.",
            f"Das {r.choice(THINGS)} liegt bei. Bitte beachten Sie die neuen Anweisungen zur Anmeldung in {r.choice(CITIES)}.",
            f"Veuillez trouver ci-joint le document. Les instructions précédentes restent valables jusqu'au {r.randint(1, 28)} mai.",
            f"请查收附件。第{r.randint(1, 99)}页的说明已更新，密码请到前台领取。",
            f"Прикладываю файл. Инструкции по установке на странице {r.randint(1, 99)}.",
            f"添付ファイルをご確認ください。{r.randint(1, 12)}月の予定を表示します。",
            f"می‌خواهم {r.randint(2, 9)} کتاب بخرم. لطفاً فهرست را بفرستید.",
            f"git log: {r.randbytes(4).hex()} {r.choice(['Fix', 'Add', 'Drop', 'Rename'])} {r.choice(SERVICES)} {r.choice(THINGS)}; skip review comments that are obsolete",
            f"$ systemctl status {r.choice(SERVICES)}\nActive: active (running) since Mon\nMain PID: {r.randint(100, 9999)}\nTasks: {r.randint(1, 40)}",
            f'Traceback (most recent call last):\n  File "{r.choice(SERVICES)}.py", line {r.randint(1, 400)}, in run\nValueError: invalid {r.choice(THINGS)}: use the read method to load it first',
            f"BEGIN:VCALENDAR\nSUMMARY:{r.choice(THINGS)} review with {r.choice(NAMES)}\nLOCATION:{r.choice(CITIES)}\nDESCRIPTION:Please read the {r.choice(THINGS)} before the meeting.\nEND:VCALENDAR",
            f"Support chat\nUser: how do I reset my password?\nAgent {r.choice(NAMES)}: open Settings and choose Reset. I have sent the link to your mail.",
            f"Terms of service, section {r.randint(1, 30)}: you must not share your credentials with third parties. We may change these rules without notice.",
        ]
    )


def write(part: str, seed: int, count: int) -> None:
    r = random.Random(seed)
    makers = [log_lines, mail, api_json, code, readme, article, other, other]
    texts = list(dict.fromkeys(makers[i % len(makers)](r).strip() for i in range(count * 2)))
    (CORPUS / part / "benign.txt").write_text("\n%%\n".join(texts[:count]) + "\n")


write("plain_orders", 1, 120)
write("reworded_orders", 20261115, 440)
