"""Small jobs of a day in a terminal, each with a solution as tool calls and a check of its own.

They are in the style of public sets of terminal tasks: something is there (`files`, `setup`),
something is to be done (`order`), and a command that knows nothing of how it was done says whether
it was (`check`). The solutions show that our tools suffice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Call = tuple[str, dict[str, Any]]


def sh(command: str, **more: Any) -> Call:
    return ("exec", {"command": command, **more})


def edit(path: str, *changes: tuple[str, str]) -> Call:
    return ("edit", {"path": path, "edits": [{"old_text": a, "new_text": b} for a, b in changes]})


@dataclass(frozen=True)
class Task:
    name: str
    order: str
    steps: tuple[tuple[Call, ...], ...]
    check: str
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    setup: str = "true"


_GIT = "git init -q -b main . && git config user.email a@b.example && git config user.name A"
_COMMIT = "git -c user.email=a@b.example -c user.name=A commit -q"

TASKS = (
    Task(
        "a-file",
        "Create hello.txt with the text Hello, world! and a line break.",
        ((("write", {"path": "hello.txt", "content": "Hello, world!\n"}),),),
        '[ "$(cat hello.txt)" = "Hello, world!" ]',
    ),
    Task(
        "a-script-that-will-not-start",
        "run.sh does not start. Make it work and keep what it prints in out.txt.",
        (
            (("read", {"path": "run.sh"}), sh("ls -l run.sh")),
            (edit("run.sh", ("/bin/bsh", "/bin/sh"), ("ech ", "echo ")),),
            (sh("chmod +x run.sh && ./run.sh > out.txt"),),
        ),
        "[ -x run.sh ] && ./run.sh | diff - out.txt && grep -qx 'sum 6' out.txt",
        {"run.sh": "#!/bin/bsh\nech sum $((1+2+3))\n"},
    ),
    Task(
        "a-bug-in-python",
        "The tests of stats.py fail. Fix the module, not the tests.",
        (
            (sh("python3 -m unittest -q test_stats; true"), ("read", {"path": "stats.py"})),
            (
                edit(
                    "stats.py",
                    ("ordered = values", "ordered = sorted(values)"),
                    (
                        "(ordered[middle] + ordered[middle + 1]) / 2",
                        "(ordered[middle - 1] + ordered[middle]) / 2",
                    ),
                ),
            ),
            (sh("python3 -m unittest -q test_stats"),),
        ),
        "python3 -m unittest -q test_stats",
        {
            "stats.py": (
                "def median(values):\n"
                "    ordered = values\n"
                "    middle = len(ordered) // 2\n"
                "    if len(ordered) % 2:\n"
                "        return ordered[middle]\n"
                "    return (ordered[middle] + ordered[middle + 1]) / 2\n"
            ),
            "test_stats.py": (
                "import unittest\nfrom stats import median\n\n"
                "class T(unittest.TestCase):\n"
                "    def test_odd(self): self.assertEqual(median([9, 1, 5]), 5)\n"
                "    def test_even(self): self.assertEqual(median([4, 1, 3, 2]), 2.5)\n"
            ),
        },
    ),
    Task(
        "a-build-that-breaks",
        "make fails. Fix the build; the program greet has to print its greeting.",
        (
            (sh("make; true"), ("search", {"pattern": "greeting", "glob": "**/*.[ch]"})),
            (
                edit("Makefile", ("main.o\n", "main.o greeting.o\n")),
                edit("main.c", ('"greetings.h"', '"greeting.h"')),
            ),
            (sh("make && ./greet"),),
        ),
        '[ "$(./greet)" = "Good day" ] && make -q',
        {
            "Makefile": "greet: main.o\n\tcc -o $@ $^\n%.o: %.c\n\tcc -c $<\n",
            "main.c": '#include <stdio.h>\n#include "greetings.h"\nint main(void) { puts(greeting()); }\n',
            "greeting.h": "const char *greeting(void);\n",
            "greeting.c": 'const char *greeting(void) { return "Good day"; }\n',
        },
    ),
    Task(
        "a-table-as-json",
        "Turn people.csv into people.json: a list of objects, ages as numbers, the oldest first.",
        (
            (("read", {"path": "people.csv"}),),
            (
                sh(
                    "python3 - <<'E'\nimport csv, json\n"
                    "rows = [{**r, 'age': int(r['age'])} for r in csv.DictReader(open('people.csv'))]\n"
                    "json.dump(sorted(rows, key=lambda r: -r['age']), open('people.json', 'w'))\nE"
                ),
            ),
        ),
        '[ "$(jq -r ".[].name" people.json | tr "\\n" ,)" = "Cleo,Ada,Ben\\"B\\"," ] && jq -e ".[0].age == 77" people.json',
        {"people.csv": 'name,age\nAda,41\n"Ben""B""",7\nCleo,77\n'},
    ),
    Task(
        "errors-by-the-hour",
        "Count the lines with ERROR in app.log by hour and write them to errors.txt as HH COUNT.",
        (
            (("search", {"pattern": "ERROR", "path": "app.log"}),),
            (
                sh(
                    "awk '/ ERROR /{n[substr($2,1,2)]++} END{for(h in n) print h, n[h]}' app.log | sort > errors.txt"
                ),
            ),
        ),
        'printf "08 2\\n23 1\\n" | diff - errors.txt',
        {
            "app.log": (
                "2026-01-01 08:00:01 ERROR a\n2026-01-01 08:10:00 INFO no ERRORS\n"
                "2026-01-01 08:59:59 ERROR b\n2026-01-01 23:00:00 ERROR c\n"
            )
        },
    ),
    Task(
        "a-merge-with-a-conflict",
        "Merge the branch feature into main. In a conflict, keep both sides' lines, main's first.",
        (
            (sh("git merge feature; git status --short"),),
            (("read", {"path": "list.txt"}),),
            (
                edit(
                    "list.txt",
                    ("<<<<<<< HEAD\n", ""),
                    ("=======\n", ""),
                    (">>>>>>> feature\n", ""),
                ),
            ),
            (sh(f"git add list.txt && {_COMMIT} -m 'Merge feature'"),),
        ),
        'git diff --quiet && [ "$(git rev-list --merges --count HEAD)" = 1 ] && printf "a\\nours\\ntheirs\\n" | diff - list.txt',
        setup=(
            f"{_GIT} && echo a > list.txt && git add . && git commit -qm 1 && git checkout -qb feature"
            " && echo theirs >> list.txt && git commit -qam 2 && git checkout -q main"
            " && echo ours >> list.txt && git commit -qam 3"
        ),
    ),
    Task(
        "which-commit-broke-it",
        "Find the commit that made check.sh fail and write its subject to culprit.txt.",
        (
            (sh("git log --oneline | cat"),),
            (
                sh(
                    "git bisect start HEAD HEAD~9 && git bisect run sh check.sh > /dev/null; git log -1 --format=%s refs/bisect/bad > culprit.txt; git bisect reset"
                ),
            ),
        ),
        'grep -qx "change 6" culprit.txt && [ "$(git branch --show-current)" = main ]',
        setup=(
            f"{_GIT} && echo 'test $(cat n) -lt 6' > check.sh && git add . && for i in 1 2 3 4 5 6 7 8 9 10;"
            ' do echo $i > n; git add n; git commit -qm "change $i"; done'
        ),
    ),
    Task(
        "a-lost-commit",
        "The commit 'Important work' is on no branch any more. Put it on a branch called rescued.",
        (
            (sh("git reflog | cat"),),
            (
                sh(
                    "git branch rescued $(git reflog --format='%h %gs' | awk '/Important work/{print $1; exit}')"
                ),
            ),
        ),
        '[ "$(git log -1 --format=%s rescued)" = "Important work" ] && git show rescued:work.txt',
        setup=(
            f"{_GIT} && git commit -q --allow-empty -m base && echo w > work.txt && git add ."
            " && git commit -qm 'Important work' && git reset -q --hard HEAD~1"
        ),
    ),
    Task(
        "the-best-customers",
        "Write the two customers with the highest total in shop.db to top.csv as name,total.",
        (
            (sh("sqlite3 shop.db .schema"),),
            (
                sh(
                    "sqlite3 -csv shop.db 'select c.name, sum(o.amount) t from customers c join orders o on o.customer = c.id group by c.id order by t desc limit 2' | tr -d '\\r' > top.csv"
                ),
            ),
        ),
        'printf "Ben,90\\nAda,30\\n" | diff - top.csv',
        setup=(
            'sqlite3 shop.db "create table customers(id, name); create table orders(customer, amount);'
            " insert into customers values (1,'Ada'),(2,'Ben'),(3,'Cleo');"
            ' insert into orders values (1,10),(1,20),(2,90),(3,5);"'
        ),
    ),
    Task(
        "a-migration",
        "Split people.name in app.db into first and last, keep the ids, and leave no old column.",
        (
            (sh("sqlite3 app.db .dump"),),
            (
                (
                    "write",
                    {
                        "path": "migrate.sql",
                        "content": (
                            "begin;\ncreate table fresh(id integer primary key, first text, last text);\n"
                            "insert into fresh select id, substr(name, 1, instr(name, ' ') - 1),"
                            " substr(name, instr(name, ' ') + 1) from people;\n"
                            "drop table people;\nalter table fresh rename to people;\ncommit;\n"
                        ),
                    },
                ),
            ),
            (sh("sqlite3 app.db < migrate.sql && sqlite3 app.db 'select * from people'"),),
        ),
        '[ "$(sqlite3 app.db "select id, first, last from people order by id" | tr "\\n" " ")" = "3|Ada|Lovelace 8|Alan|Turing " ]',
        setup=(
            'sqlite3 app.db "create table people(id integer primary key, name text);'
            " insert into people values (3,'Ada Lovelace'),(8,'Alan Turing');\""
        ),
    ),
    Task(
        "an-archive-in-an-archive",
        "Somewhere in outer.zip is a file token.txt. Put its content into found.txt.",
        (
            (sh("mkdir -p out && cd out && unzip -q ../outer.zip && find . -type f"),),
            (sh("tar xzf inner.tar.gz && xz -d deep.tar.xz && tar xf deep.tar && cat token.txt"),),
            (sh("cp token.txt ../found.txt"),),
        ),
        "grep -qx 'tide-42' found.txt",
        setup=(
            "echo tide-42 > token.txt && tar cJf deep.tar.xz token.txt && tar czf inner.tar.gz deep.tar.xz"
            " && zip -q outer.zip inner.tar.gz && rm token.txt deep.tar.xz inner.tar.gz"
        ),
    ),
    Task(
        "a-certificate",
        "Make a key and a self-signed certificate for demo.example, valid for 90 days, in tls/.",
        (
            (
                sh(
                    "mkdir -p tls && openssl req -x509 -newkey rsa:2048 -nodes -days 90 -subj /CN=demo.example -keyout tls/key.pem -out tls/cert.pem 2>&1 | tail -1"
                ),
            ),
            (
                sh(
                    "chmod 600 tls/key.pem && openssl x509 -in tls/cert.pem -noout -subject -enddate"
                ),
            ),
        ),
        'openssl x509 -in tls/cert.pem -noout -subject | grep -q demo.example && [ "$(stat -c %a tls/key.pem)" = 600 ]'
        " && openssl x509 -in tls/cert.pem -noout -checkend 7000000 && ! openssl x509 -in tls/cert.pem -noout -checkend 8000000",
    ),
    Task(
        "a-secret-message",
        "Decrypt message.enc (aes-256-cbc, pbkdf2; the password is in pass.txt) to message.txt.",
        (
            (
                sh(
                    "openssl enc -d -aes-256-cbc -pbkdf2 -pass file:pass.txt -in message.enc -out message.txt"
                ),
            ),
        ),
        "grep -qx 'meet at noon' message.txt",
        {"pass.txt": "horse battery\n"},
        "echo 'meet at noon' | openssl enc -aes-256-cbc -pbkdf2 -pass file:pass.txt -out message.enc",
    ),
    Task(
        "json-that-is-none",
        "config.json cannot be parsed. Repair it without changing what it says.",
        (
            (sh("python3 -m json.tool config.json; true"), ("read", {"path": "config.json"})),
            (edit("config.json", ("'name'", '"name"'), ("8080,\n}", "8080\n}"), ("True", "true")),),
            (sh("python3 -m json.tool config.json > /dev/null"),),
        ),
        "jq -e '.name == \"demo\" and .debug == true and .port == 8080' config.json",
        {"config.json": '{\n  \'name\': "demo",\n  "debug": True,\n  "port": 8080,\n}\n'},
    ),
    Task(
        "a-name-in-many-files",
        "Rename the function get_data to load_rows everywhere, but not get_data_dir.",
        (
            (("search", {"pattern": r"\bget_data\b"}),),
            (
                (
                    "edit",
                    {"path": "lib.py", "old_text": "def get_data(", "new_text": "def load_rows("},
                ),
                edit(
                    "app/main.py",
                    ("import get_data,", "import load_rows,"),
                    ("get_data(get", "load_rows(get"),
                ),
            ),
            (sh("PYTHONPATH=. python3 app/main.py"),),
        ),
        '[ "$(PYTHONPATH=. python3 app/main.py)" = "rows of /data" ] && ! grep -rnw get_data --include=*.py .',
        {
            "lib.py": "def get_data(place):\n    return f'rows of {place}'\n\ndef get_data_dir():\n    return '/data'\n",
            "app/main.py": "from lib import get_data, get_data_dir\nprint(get_data(get_data_dir()))\n",
        },
    ),
    Task(
        "tidy-up",
        "Move the pictures to pictures/ and the notes to notes/, and delete what is temporary.",
        (
            (("list", {"depth": 2}),),
            (
                ("move", {"path": "a.png", "to": "pictures/a.png"}),
                ("move", {"path": "old/b.png", "to": "pictures/b.png"}),
                ("move", {"path": "todo.md", "to": "notes/todo.md"}),
            ),
            (("delete", {"path": "old"}), ("delete", {"path": "x.tmp"})),
        ),
        '[ "$(find . -type f | sort | tr "\\n" " ")" = "./notes/todo.md ./pictures/a.png ./pictures/b.png " ]',
        {"a.png": "a", "old/b.png": "b", "old/c.tmp": "c", "todo.md": "t", "x.tmp": "x"},
    ),
    Task(
        "work-in-the-background",
        "Start slow.sh, count the lines of big.txt into lines.txt meanwhile, then wait for its result.",
        (
            (sh("sh slow.sh", background=True), sh("wc -l < big.txt | tr -d ' ' > lines.txt")),
            (("jobs", {"action": "list"}),),
            (("jobs", {"action": "wait", "job": "1", "timeout": 60}),),
        ),
        "grep -qx 1000 lines.txt && grep -qx finished result.txt",
        {"slow.sh": "sleep 1\necho finished > result.txt\n", "big.txt": "line\n" * 1000},
    ),
    Task(
        "a-patch-that-does-not-fit",
        "Apply fix.patch to code.txt; where it does not fit any more, do what it means.",
        (
            (
                sh("patch --dry-run -p0 < fix.patch; true"),
                ("read", {"path": "fix.patch"}),
                ("read", {"path": "code.txt"}),
            ),
            (
                edit(
                    "code.txt",
                    ("timeout = 3  # seconds", "timeout = 30  # seconds"),
                    ("retries=1", "retries = 5"),
                ),
            ),
            (sh("grep -n . code.txt"),),
        ),
        "grep -q 'timeout = 30' code.txt && grep -q 'retries = 5' code.txt && grep -q 'name = x' code.txt",
        {
            "code.txt": "name = x\ntimeout = 3  # seconds\nretries=1\n",
            "fix.patch": "--- code.txt\n+++ code.txt\n@@ -1,3 +1,3 @@\n name = y\n-timeout = 3\n-retries = 1\n+timeout = 30\n+retries = 5\n",
        },
    ),
    Task(
        "a-script-of-ones-own",
        "Write rotate.sh, which keeps the last two of app.log as app.log.1 and app.log.2, and run it twice.",
        (
            (
                (
                    "write",
                    {
                        "path": "rotate.sh",
                        "content": "#!/bin/sh\nset -e\n[ ! -f app.log.1 ] || mv app.log.1 app.log.2\nmv app.log app.log.1\n: > app.log\n",
                    },
                ),
            ),
            (sh("chmod +x rotate.sh && ./rotate.sh && echo second > app.log && ./rotate.sh"),),
            (("list", {}),),
        ),
        "grep -qx first app.log.2 && grep -qx second app.log.1 && [ ! -s app.log ] && echo third > app.log && ./rotate.sh"
        " && grep -qx third app.log.1 && grep -qx second app.log.2",
        {"app.log": "first\n"},
    ),
    Task(
        "the-same-in-another-language",
        "Port count.pl to count.py so that both print the same for any input.",
        (
            (("read", {"path": "count.pl"}),),
            (
                (
                    "write",
                    {
                        "path": "count.py",
                        "content": (
                            "import re, sys\nfrom collections import Counter\n"
                            "seen = Counter(re.findall(r'[a-z]+', sys.stdin.read().lower()))\n"
                            "for word in sorted(seen, key=lambda w: (-seen[w], w)):\n    print(seen[word], word)\n"
                        ),
                    },
                ),
            ),
            (
                sh(
                    "perl count.pl < text.txt > a; python3 count.py < text.txt > b; diff a b && rm a b"
                ),
            ),
        ),
        'for t in text.txt count.pl; do perl count.pl < $t > /tmp/$$.a; python3 count.py < $t | diff - /tmp/$$.a || exit 1; done; rm -f /tmp/$$.a; [ "$(python3 count.py < text.txt | head -1)" = "3 the" ]',
        {
            "count.pl": 'local $/; $_ = lc <STDIN>; $n{$1}++ while /([a-z]+)/g;\nprint "$n{$_} $_\\n" for sort { $n{$b} <=> $n{$a} || $a cmp $b } keys %n;\n',
            "text.txt": "The cat, the dog and The bird.\n",
        },
    ),
)
