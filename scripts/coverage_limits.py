"""Report coverage and fail below the limits, which differ for lines and branches."""

import json
import subprocess
import sys
from pathlib import Path

LINES, BRANCHES = 90.0, 85.0


def main() -> int:
    report = Path(".cache/coverage.json")
    subprocess.run([sys.executable, "-m", "coverage", "report"], check=True)
    subprocess.run([sys.executable, "-m", "coverage", "json", "-q", "-o", str(report)], check=True)
    totals = json.loads(report.read_text())["totals"]
    lines = 100 * totals["covered_lines"] / totals["num_statements"]
    branches = 100 * totals["covered_branches"] / totals["num_branches"]
    print(
        f"coverage: {lines:.1f} % of lines (at least {LINES}), {branches:.1f} % of branches (at least {BRANCHES})"
    )
    return 0 if lines >= LINES and branches >= BRANCHES else 1


if __name__ == "__main__":
    sys.exit(main())
