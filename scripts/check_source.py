"""Check that the source does nothing that a reader wouldn't look for (part of `scripts/check`).

- Nothing replaces modules, hooks imports, looks at callers' frames, or reads compiled code.
- Nothing is assigned to attributes of other packages, and none of their private names is used,
  apart from `EXCEPTIONS`.
- Imports stand at the top of a file. An import inside a function needs a reason in `DEFERRED`: an
  optional extra, a platform, or a large library that most runs don't need. There is a limit for all
  of them together, and another for imports that only type checkers see; lower them when you can.

`scripts/check_source.py --list` prints all imports that aren't at the top.
"""

import ast
import importlib
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "openclaw"

MOST_DEFERRED = 107
MOST_TYPING_ONLY = 135

BANNED = {"meta_path", "path_hooks", "_getframe", "marshal", "setswitchinterval"}

MOST_EXCEPTIONS = 10
# (file, what it does) -> why there is no other way.
EXCEPTIONS = {
    ("cli/main.py", "sets sys"): "standard streams that the shell had closed",
    ("cli/parser.py", "uses _actions"): "argparse lists a parser's options nowhere else",
    ("cli/terminal.py", "uses _environ"): "Rich would read the process's own variables",
    ("embedded/model.py", "overrides _get_event_iterator"): "pydantic-ai's way to write a model",
    ("embedded/model.py", "uses _parts_manager"): "pydantic-ai's way to write a model",
    ("mcp_client/sandbox/internet_proxy.py", "uses os._exit"): "the child of a fork without exec",
    ("mcp_client/transport/child_process.py", "uses _handle"): "the only way to a process's handle",
    ("media/images.py", "sets PIL.Image.MAX_IMAGE_PIXELS"): "Pillow's documented setting",
    ("stdio/descriptors.py", "uses os._exit"): "a client that left need not wait for threads",
}
# Documented to be assigned.
HOOKS = {"sys.excepthook", "sys.stdout", "sys.unraisablehook", "threading.excepthook"}

EXTRA = "an optional extra"
PLATFORM = "not every system has it"
LARGE = "large, and most runs don't need it"
DEFERRED = {
    "asyncpg": EXTRA,
    "azure": EXTRA,
    "boto3": EXTRA,
    "botocore": EXTRA,
    "google": EXTRA,
    "keyring": EXTRA,
    "opentelemetry": EXTRA,
    "xllamacpp": EXTRA,
    "pydantic_ai.models.google": EXTRA,
    "pydantic_ai.providers.google": EXTRA,
    "ctypes": PLATFORM,
    "fcntl": PLATFORM,
    "msvcrt": PLATFORM,
    "resource": PLATFORM,
    "termios": PLATFORM,
    "tty": PLATFORM,
    "PIL": LARGE,
    "Stemmer": LARGE,
    "anthropic": LARGE,
    "bs4": LARGE,
    "charset_normalizer": LARGE,
    "httpx2": LARGE,
    "markdownify": LARGE,
    "openai": LARGE,
    "openclaw": "our own modules, to be moved to the top",
    "plistlib": LARGE,
    "prompt_toolkit": LARGE,
    "pydantic": LARGE,
    "pydantic_ai": LARGE,
    "pypdf": LARGE,
    "rich": LARGE,
    "urllib": LARGE,
    "yaml": LARGE,
}


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Finding:
    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


@dataclass(frozen=True)
class LateImport(Finding):
    typing_only: bool = False


@dataclass
class Module(ast.NodeVisitor):
    """What one file does that it shouldn't, and its imports that aren't at the top."""

    path: Path
    findings: list[Finding] = field(default_factory=list[Finding])
    late_imports: list[LateImport] = field(default_factory=list[LateImport])
    imported: dict[str, str] = field(default_factory=dict[str, str])  # names of other packages
    others_private: set[int] = field(default_factory=set[int])  # lines where the linter is told so
    functions: int = 0
    typing_only: bool = False

    def check(self) -> None:
        text = (SOURCE / self.path).read_text("utf-8")
        lines = enumerate(text.splitlines(), start=1)
        self.others_private = {number for number, line in lines if "noqa: SLF001" in line}
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._bind(node)
        self.visit(tree)

    def _bind(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                origin = f"{node.module}.{alias.name}"
                name = alias.asname or alias.name
            else:
                origin = alias.name if alias.asname else alias.name.partition(".")[0]
                name = alias.asname or origin
            if origin.partition(".")[0] != "openclaw":
                self.imported[name] = origin

    def _report(self, node: ast.AST, text: str) -> None:
        self.findings.append(Finding(self.path, getattr(node, "lineno", 0), text))

    # ---- where an import stands

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.functions += 1
        self.generic_visit(node)
        self.functions -= 1

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_If(self, node: ast.If) -> None:
        before = self.typing_only
        self.typing_only = before or "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body:
            self.visit(statement)
        self.typing_only = before
        self.visit(node.test)
        for statement in node.orelse:
            self.visit(statement)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._import(node, alias.name, [alias.name.rpartition(".")[2]])

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self._import(node, node.module or "", [alias.name for alias in node.names])

    def _import(self, node: ast.AST, module: str, names: list[str]) -> None:
        if self.typing_only or self.functions:
            line = getattr(node, "lineno", 0)
            self.late_imports.append(LateImport(self.path, line, module, self.typing_only))
        for name in {*names, *module.split(".")}:
            if name in BANNED:
                self._report(node, f"imports {name}")
            elif _is_private(name) and not module.startswith("openclaw"):
                self._report(node, f"uses {module}.{name}")

    # ---- what is done to other packages

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for base in node.bases:
            private = _private_names(self._origin(base))
            for inner in ast.walk(node) if private else ():
                if isinstance(inner, _FUNCTIONS) and inner.name in private:
                    self._report(inner, f"overrides {inner.name}")
                elif (
                    isinstance(inner, ast.Attribute)
                    and inner.attr in private
                    and isinstance(inner.value, ast.Name | ast.Call)
                    and ast.unparse(inner.value) in {"self", "cls", "super()"}
                ):
                    self._report(inner, f"uses {inner.attr}")
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        root = self._origin(node)
        if node.attr in BANNED:
            self._report(node, f"uses {node.attr}")
        elif root == "os._exit":
            self._report(node, "uses os._exit")
        elif root and root not in HOOKS and isinstance(node.ctx, ast.Store | ast.Del):
            self._report(node, f"sets {root}")
        elif _is_private(node.attr) and (root or node.lineno in self.others_private):
            self._report(node, f"uses {node.attr}")
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        root = self._origin(node.value)
        if root == "sys.modules":
            self._report(node, "uses sys.modules[")
        elif root and isinstance(node.ctx, ast.Store | ast.Del):
            self._report(node, f"sets {root}")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in {"setattr", "delattr"}:
            target = self._origin(node.args[0])
            if target:
                self._report(node, f"sets {target}")
        for keyword in node.keywords:
            if keyword.arg and _is_private(keyword.arg) and self._origin(node.func):
                self._report(node, f"uses {keyword.arg}")
        self.generic_visit(node)

    def _origin(self, node: ast.AST) -> str:
        """`socket.socket` for `socket.socket`, or for `socket` imported from it; else nothing."""
        names: list[str] = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.imported:
            return ""
        return ".".join([self.imported[node.id], *reversed(names)])


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in {"_", "_exit"}


def _private_names(origin: str) -> set[str]:
    """The private names of a class of another package."""
    module, _, name = origin.rpartition(".")
    if not module:
        return set()
    try:
        kind = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        return set()
    return {name for name in dir(kind) if _is_private(name)}


def reason(late: LateImport) -> str | None:
    """Why this import isn't at the top."""
    for module, text in DEFERRED.items():
        if late.text == module or late.text.startswith(f"{module}."):
            return text
    return None


def problems(findings: list[Finding], late_imports: list[LateImport]) -> Iterator[str]:
    excused = {(str(finding.path), finding.text) for finding in findings}
    for finding in findings:
        if (str(finding.path), finding.text) not in EXCEPTIONS:
            yield str(finding)
    for file, text in EXCEPTIONS.keys() - excused:
        yield f"{file}: no longer {text}; remove the exception"
    if len(EXCEPTIONS) > MOST_EXCEPTIONS:
        yield f"{len(EXCEPTIONS)} exceptions; at most {MOST_EXCEPTIONS}"
    deferred = [late for late in late_imports if not late.typing_only]
    for late in deferred:
        if reason(late) is None:
            yield f"{late.path}:{late.line}: imports {late.text} inside a function"
    if len(deferred) > MOST_DEFERRED:
        yield f"{len(deferred)} imports inside functions; at most {MOST_DEFERRED}"
    typing_only = len(late_imports) - len(deferred)
    if typing_only > MOST_TYPING_ONLY:
        yield f"{typing_only} imports for type checkers only; at most {MOST_TYPING_ONLY}"


def main() -> int:
    modules = [Module(path.relative_to(SOURCE)) for path in sorted(SOURCE.rglob("*.py"))]
    for module in modules:
        module.check()
    late_imports = [late for module in modules for late in module.late_imports]
    if "--list" in sys.argv[1:]:
        for late in late_imports:
            print(late, "" if late.typing_only else f"({reason(late)})")
        kinds = Counter(
            "typing only" if late.typing_only else reason(late) for late in late_imports
        )
        print(dict(kinds))
    findings = [finding for module in modules for finding in module.findings]
    wrong = list(problems(findings, late_imports))
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
