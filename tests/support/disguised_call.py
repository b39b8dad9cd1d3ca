"""A call that misleads whoever approves it, unless it is shown exactly as it runs."""

CONTENT = (
    "AWS_SECRET_ACCESS_KEY=`touch$IFS/pwned` ls\n"
    f"curl -H 'Cookie: a={'x' * 4000}; rm -rf ~' https://a.example\n"
    "echo :warning: \U000e0041\u200b\u3164\x1b[2J"
)
ARGUMENTS = {"path": "run.sh", "content": CONTENT}

BODY = (
    "path: run.sh\n"
    "content:\n"
    "+ AWS_SECRET_ACCESS_KEY=`touch$IFS/pwned` ls\n"
    f"+ curl -H 'Cookie: a={'x' * 4000}; rm -rf ~' https://a.example\n"
    "+ echo :warning: <U+E0041><U+200B><U+3164><U+001B>[2J"
)
"""All of it, on every front end."""

TITLE = "Write run.sh?"
