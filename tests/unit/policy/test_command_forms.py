"""Which commands a form covers, and which tricks get nothing more out of one."""

import shutil
import subprocess
from pathlib import Path

import pytest

from openclaw.policy.command_forms import form_of, literal_words

USUAL = """
git status
git status --short -b
git status -sb src
git status --porcelain -- src/openclaw
git log
git log --oneline -5
git log --oneline -n 5 main..feature/x
git log -n5 --stat
git log --since="2 weeks ago" --author='Ann Lee' src/a.py
git log -p -3 -- docs
git log HEAD~3..HEAD^
git show HEAD
git show --stat v1.2.3
git diff
git diff --staged --stat
git diff main...HEAD --name-only
git diff -w src/openclaw tests
git branch
git branch -avv
git add -A
git add src/a.py "docs/a file.md"
git commit -m "Fix the parser (again): it's done"
git commit -am 'Say why'
ls
ls -la src
cat README.md
head -20 a.txt
head -n 20 a.txt
tail -n5 logs/a.log
wc -l src/a.py
grep -rn "def main" src
grep -n -A 3 'class .*Error' src/a.py
grep -rl --include='*.py' TODO .
rg -n "foo|bar" src -g '*.py'
find . -name '*.py' -type f -maxdepth 3
pytest
pytest -x -q tests/unit/test_a.py::test_b
pytest "tests/test_a.py::test_b[x-1]" -k "parser and not slow" -n 2
python -m pytest tests --tb=short --maxfail=1
cargo test --release parser::tests -p my-crate
cargo check --workspace -q
go test ./... -run TestParse -count=1 -v
go vet ./cmd/...
ruff check src tests --fix
ruff format --check .
""".strip().splitlines()

# Each line is a way to get more out of an approved command than the question said.
TRICKS = r"""
git grep -Osh pattern
git grep --open-files-in-pager=sh pattern
git grep --open-files=sh x
git log --output=AGENTS.md
git log --outp=AGENTS.md
git log --output AGENTS.md
git log --format=%G?
git log --pretty=tformat:%GG
git log --show-signature
git log --ext-diff -p
git log --textconv
git log --exec=x
git log -S$(id)
git log -- /etc/passwd
git log -- ../../secrets
git log ~/other
git log `id`
git log --since=$(id)
git log --since="$(id)"
git log --author="a\"; id; \""
git log > ~/.bashrc
git log >x
git log<x
git log & id
git log && id
git log || id
git log ; id
git log; id
git log | sh
git log |sh
git log # x
git log {a,b}
git log src/*
git log src/?.py
git log src/[ab].py
git log "src/*"
git log @{upstream}
git log a=~root
git log a:~root
git log $HOME
git log "$HOME"
git log !!
git log 'a'$'\x0a'id
git log a\ b
git log --no-pager
git --no-pager log
git -c core.pager=sh log
git -ccore.pager=sh log
git -C /other log
git --git-dir=x log
git --exec-path=. log
git -p log
GIT_PAGER=sh git log
env GIT_PAGER=sh git log
PATH=.:$PATH git log
/tmp/git log
./git log
'git' 'log' '--output=x'
"git" log --outp=x
git log ''--output=x
git log '--output=x'
git log "--output=x"
git log -''-output=x
git log --out''put=x
git diff --no-index a /etc/shadow
git diff --ext-diff
git diff --output=x
git diff /etc/passwd /etc/shadow
git diff src/../../other
git diff -O/tmp/x
git show HEAD:/../x
git show --output=x
git show :/x
git status -u$(id)
git status --ignore-submodules=x
git status ../
git branch evil
git branch -D main
git branch -m main evil
git branch --edit-description
git branch -f main HEAD~9
git branch --set-upstream-to=evil
git add ../other
git add --pathspec-from-file=/etc/passwd
git add -i
git add -p
git add -e
git add --chmod=+x a
git commit -F /etc/passwd
git commit --file=/etc/passwd -m x
git commit --template=/etc/passwd
git commit -t /etc/passwd
git commit --amend -m x
git commit --no-verify -m x
git commit -m x --author=evil
git commit -m "`id`"
git commit -m "$(id)"
git commit -m x -C HEAD
git commit -em x
git commit -m -F
git fetch -u x
git fetch --upload-p=./x
git push --receive-p=./x
git push --exe=./x
git clone -uKEY x
git config core.pager sh
git rebase --exec id
git bisect run id
git submodule foreach id
git filter-branch x
cat /etc/passwd
cat ../x
cat ~/.ssh/id_rsa
cat -- /etc/passwd
cat a b/../../c
cat @x
head -c 5 /dev/sda
head --bytes=5 x
tail -f x
tail --follow=name x
tail --pid=1 x
wc --files0-from=x
ls ..
ls /root
ls --hyperlink=x
ls -la --time-style=+$(id)
grep -f /etc/passwd a
grep --file=/etc/passwd a
grep -rf x a
grep root /etc/passwd
grep -r root ../
grep -e x -f /etc/shadow
grep x -d /etc
rg --pre sh x
rg --pre=sh x
rg --hostname-bin=sh x
rg -z x
rg -f /etc/passwd x
rg x /etc
rg --files-from=x y
find . -delete
find . -exec id ;
find . -exec id {} +
find . -execdir id
find . -ok id
find . -fprintf x y
find . -fprint x
find . -fls x
find / -name x
find .. -name x
find . -newer /etc/passwd
find -files0-from x
find . -name x -o -delete
find . ( -delete )
pytest -p evil
pytest -pevil
pytest -c /tmp/x.ini
pytest -o addopts=-pevil
pytest --override-ini=x
pytest --rootdir=/tmp
pytest --confcutdir=/
pytest --basetemp=/home
pytest --basete=/home
pytest --junitxml=AGENTS.md
pytest --junit-x=AGENTS.md
pytest --pdbcls=os:system
pytest --pdb
pytest --import-mode=importlib
pytest --cov-report=html:/x
pytest /tmp/evil
pytest ../evil
pytest @args
pytest ./@args
pytest -k "__import__('os').system('id')"
pytest -k x() tests
python -m pytest -p evil
python -m pytest --rootd=/tmp
python -c pytest
python -m pytest2
python -mpytest
python evil.py
python3 -im pytest
cargo test --config x
cargo test --config=build.rustc-wrapper="sh"
cargo test --manifest-path=/x/Cargo.toml
cargo test --manifest-p=/x
cargo test --target-dir /x
cargo test -Zunstable
cargo test -- --nocapture
cargo +evil test
cargo --config x test
cargo build --artifact-dir=x
cargo build --out-dir=x
cargo install evil
cargo run
go test -exec ./x ./...
go test -exec=./x
go test --exec=./x
go test -toolexec=./x
go test -o x
go test -c
go test -coverprofile=/x
go test -cpuprofile=x
go test -modfile=x
go test -overlay=x
go test -ldflags=x
go test evil.com/x
go test ../x
go test /x
go vet -vettool=./x
go generate ./...
go env -w CC=sh
ruff check --config=/x
ruff check --config x
ruff check --output-file=x
ruff check -o x
ruff check @args
ruff check --add-noqa
ruff check --unsafe-fixes /x
ruff format /x
ruff format ../x
ruff clean
make -f /tmp/x
make SHELL=/tmp/x
npm test --script-shell=/tmp/x
npm test -- --evil
npm run x
npm --prefix /x test
npx pytest
uv pip install evil
uv run pytest
docker container run x
gh pr checkout 1
exec ls
eval ls
command ls
sudo ls
time ls
nice ls
xargs ls
(ls)
{ ls; }
! ls
ls()
ls <(id)
ls >(id)
ls 2>&1
""".strip("\n").split("\n")


@pytest.mark.parametrize("command", USUAL)
def test_what_people_run_every_day_has_a_form(command: str) -> None:
    assert form_of(command) is not None


def test_no_trick_gets_more_out_of_a_form() -> None:
    breaks = ["\n", "\r", "\t;", "\0", "\x0b", "\u2028", " \u200b-", "\u00a0"]
    tricks = [*TRICKS, *(f"ls{one}id" for one in breaks)]
    assert len(tricks) > 100
    assert [one for one in tricks if form_of(one) is not None] == []


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_a_shell_gives_a_program_the_words_that_were_checked(tmp_path: Path) -> None:
    for name in ("a", "src", "tests"):
        (tmp_path / name).mkdir()
    covered = [one for one in USUAL if form_of(one)]
    more = [
        f"{a} {b}" for a in ("ls", "cat", "git log") for b in TRICKS if literal_words(f"{a} {b}")
    ]
    assert len(more) > 100
    checked = [*covered, *more]
    lines = [f"set -- {one}; printf '%s\\0' \"$@\"; printf '\\1\\0'" for one in checked]
    script = "\n".join(["shopt -s extglob globstar", *lines])
    done = subprocess.run(["bash"], input=script.encode(), capture_output=True, cwd=tmp_path)
    seen = done.stdout.decode().split("\1\0")
    assert [one.split("\0")[:-1] for one in seen[:-1]] == [*map(literal_words, checked)]
