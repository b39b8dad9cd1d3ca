"""Every benchmark, one after the other, and the page that shows what they found.

`python benchmarks/table.py` measures and prints. With `--write` the figures go to
`docs/explanation/benchmarks.json`, and the page and its charts are made from them; `--pages` makes only the page
and the charts anew. Names of benchmarks (`peers growth turn …`) measure just those and keep the
figures of the others. It takes about twenty minutes: leave the machine alone meanwhile.

`--quick` runs each benchmark with three rounds, without those that install other programs or try many sizes. It
shows in a few minutes whether a change made something much slower; such figures are not written.
"""

import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from charts import bars, curves
from harness import human

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs" / "explanation"
FIGURES = DOCS / "benchmarks.json"
PAGE = DOCS / "benchmarks.md"
BENCHMARKS = {
    "peers": "Beside other clients",
    "cli": "From nothing",
    "growth": "How the cost grows",
    "mcp_server": "The MCP server",
    "gateway": "The gateway",
    "mcp_media": "Images, audio and documents",
    "turn": "A turn of the agent",
    "sessions": "The session store",
    "framing": "Framing and detection",
    "redaction": "Redaction",
    "confinement": "Starting a confined server",
    "hub": "The hub",
}
NOT_QUICK = ("peers", "growth")
METHOD = (
    "Each table is one run with its contenders interleaved: the median, the distance between the"
    " quartiles as a part of it, and the ratio to the first line."
)
MARK = "<!-- Made by benchmarks/table.py from here on. -->\n"


def machine() -> dict[str, str]:
    cpuinfo = Path("/proc/cpuinfo")
    models = [
        line.partition(":")[2].strip()
        for line in (cpuinfo.read_text().splitlines() if cpuinfo.exists() else [])
        if line.startswith("model name")
    ]
    return {
        "processor": f"{os.cpu_count()} cores, {models[0] if models else platform.machine()}",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def measure(name: str, **environ: str) -> dict[str, Any]:
    print(f"measuring {name} …", file=sys.stderr)
    command = [sys.executable, str(HERE / f"bench_{name}.py"), "--json"]
    environ = {**os.environ, **environ}
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environ).stdout
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    today = datetime.now(UTC).date().isoformat()
    return {**json.loads(output), "date": today, "load": round(load, 1)}


def sections(figures: dict[str, Any]) -> str:
    """The page below its introduction."""
    about = figures["machine"]
    lines = [
        f"Machine: {about['processor']}; {about['system']}; Python {about['python']}.",
        "",
        METHOD,
    ]
    for name, title in BENCHMARKS.items():
        found = figures["benchmarks"].get(name)
        if found is None:
            continue
        lines += ["", f"## {title}", ""]
        lines += [f"`benchmarks/bench_{name}.py`, {found['date']}."]
        if name in ("peers", "growth"):
            lines += ["", f"![{title}](benchmarks-{name}.svg)"]
        for comparison in found.get("comparisons", ()):
            lines += ["", *comparison_lines(comparison)]
        for growth in found.get("growths", ()):
            lines += ["", *growth_lines(growth)]
        if found.get("notes"):
            lines += ["", *(f"- {note}" for note in found["notes"])]
    return "\n".join(lines) + "\n"


def comparison_lines(comparison: dict[str, Any]) -> list[str]:
    lines = [f"**{comparison['title']}**", ""]
    lines += ["| | median | spread | ratio |", "|---|---:|---:|---:|"]
    for row in comparison["rows"]:
        if row["median"] is None:
            lines.append(f"| {row['name']} | could not: {_cell(row['failure'])} | | |")
            continue
        unit = comparison["unit"]
        told = human(row["median"]) if unit == "s" else f"{row['median']:.0f} {unit}"
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
        lines.append(f"| {row['name']} | {told} | {100 * row['spread']:.0f} % | {ratio} |")
    return lines


def growth_lines(growth: dict[str, Any]) -> list[str]:
    head = "".join(f" {point:,} |" for point in growth["points"])
    lines = [f"**{growth['title']}**", "", f"| {growth['of']} |{head}"]
    lines.append("|---|" + "---:|" * len(growth["points"]))
    for curve in growth["curves"]:
        cells = ("could not" if s is None else human(s) for s in curve["seconds"])
        lines.append(f"| {curve['name']} | " + " | ".join(cells) + " |")
    return lines


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")[:120]


def write_pages(figures: dict[str, Any]) -> None:
    introduction = PAGE.read_text().partition(MARK)[0]
    PAGE.write_text(introduction + MARK + "\n" + sections(figures))
    found = figures["benchmarks"]
    if "peers" in found:
        (DOCS / "benchmarks-peers.svg").write_text(bars(found["peers"]["comparisons"]))
    if "growth" in found:
        (DOCS / "benchmarks-growth.svg").write_text(curves(found["growth"]["growths"]))


def main() -> None:
    named = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    if unknown := set(named) - set(BENCHMARKS):
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    known: dict[str, Any] = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    if "--pages" in sys.argv:
        write_pages(known)
        return
    if "--quick" in sys.argv:
        if "--write" in sys.argv:
            sys.exit("figures of three rounds are not written: leave out --quick")
        for name in named or [one for one in BENCHMARKS if one not in NOT_QUICK]:
            figures = {
                "machine": machine(),
                "benchmarks": {name: measure(name, BENCHMARK_ROUNDS="3")},
            }
            print(sections(figures).partition(METHOD)[2].strip(), flush=True)
        return
    measured = {name: measure(name) for name in named or BENCHMARKS}
    figures = {
        "machine": machine(),
        "benchmarks": {**known.get("benchmarks", {}), **measured},
    }
    if "--write" in sys.argv:
        FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
        write_pages(figures)
    print(sections({**figures, "benchmarks": measured}))


if __name__ == "__main__":
    main()
