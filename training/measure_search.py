"""How often the search finds the right tools; prints a Markdown table.

usage: measure_search.py SET.json ...

A set is {"tools": [{"full_name", "server", "name", "description", "schema", "server_description"}],
"queries": [[text, [full name, ...]], ...], "ks": [1, 5]}. R@k is the share of a query's tools that are
among the first k, averaged over the queries.
"""

import argparse
import json
from pathlib import Path

from openclaw.discovery.stems import ToolDocument
from openclaw.discovery.tool_index import ToolIndex, build_index


def recall(index: ToolIndex, queries: list[tuple[str, list[str]]], ks: list[int]) -> list[float]:
    totals = [0.0] * len(ks)
    for text, right in queries:
        found = [match.full_name for match in index.search(text, max(ks))]
        for place, k in enumerate(ks):
            totals[place] += len(set(right).intersection(found[:k])) / len(right)
    return [100 * total / len(queries) for total in totals]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="+", type=Path)
    options = parser.parse_args()
    print("| set | tools | queries | recall |\n|---|---:|---:|---|")
    for path in options.sets:
        read = json.loads(path.read_text(encoding="utf-8"))
        index = build_index([ToolDocument(**each) for each in read["tools"]])
        shares = recall(index, read["queries"], read["ks"])
        told = ", ".join(
            f"R@{k} {share:.1f} %" for k, share in zip(read["ks"], shares, strict=True)
        )
        print(
            f"| {path.stem} | {len(read['tools'])} | {len(read['queries'])} | {told} |", flush=True
        )


if __name__ == "__main__":
    main()
