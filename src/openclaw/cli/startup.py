"""What each of our processes does before it imports anything large.

Importing one name from a library usually imports all of it and builds every model. Here, names are
imported and models built when they are first used. `tests/process/test_lazy_packages.py`
checks that every name still means the same.
"""

import gc
import sys
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec, SourceFileLoader
    from types import FrameType, FunctionType
    from typing import Any

# How many new objects trigger a garbage collection. Imports create a quarter of a million that stay:
# scanning them takes a seventh of the startup with Python's 700, and a tenth with 50,000.
_FIRST_OBJECTS, _NEW_OBJECTS = 500_000, 50_000

LAZY_PACKAGES = frozenset(  # their `__init__` only re-exports names
    {
        "anthropic.types",
        "anthropic.types.beta",
        "anthropic.types.shared",
        "mcp",
        "mcp.client",
        "mcp.server",
        "mcp.server.lowlevel",
        "openai.lib",
        "openai.lib._parsing",
        "openai.types",
        "openai.types.chat",
        "openai.types.responses",
        "openai.types.shared",
        "openai.types.shared_params",
        "pydantic_ai",
        "pydantic_ai.capabilities",
        "pydantic_ai.toolsets",
        "pydantic_graph",
    }
)
# Modules that import each other; they load only in the order that starts here.
_FIRST = {"pydantic_ai": "pydantic_ai.messages"}

DEFERRED_MODELS = frozenset(  # hundreds of pydantic models, of which a process uses a few
    {
        "mcp_types._types",
        "mcp_types._v2025_11_25",
        "mcp_types._v2026_07_28",
        "pydantic_ai.models.openai",
    }
)


def prepare() -> None:
    """Call it first: it imports nothing."""
    gc.set_threshold(_FIRST_OBJECTS, 20, 20)
    if _after_collection not in gc.callbacks:
        gc.callbacks.append(_after_collection)
    if "pydantic" not in sys.modules:
        # It reads every installed package's metadata to find plugins; we have and want none.
        loader = ModuleType("pydantic.plugin._loader")
        setattr(loader, "get_plugins", tuple)  # noqa: B010 - a module's type has no such attribute
        sys.modules[loader.__name__] = loader
    # httpx's command line, which we don't use, would import rich and click.
    sys.modules.setdefault("httpx._main", None)  # pyright: ignore[reportArgumentType] - "there is none"
    # This reads docstrings of tools that are Python functions; none of ours are.
    sys.modules.setdefault("pydantic_ai._griffe", _docstrings())
    if "re" in sys.modules and not _Patterns.path:
        _keep_compiled(vars(sys.modules["re._compiler"]))
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _after_collection(phase: str, _: object) -> None:
    if phase == "stop":
        gc.set_threshold(_NEW_OBJECTS, 20, 20)
        gc.callbacks.remove(_after_collection)


def _docstrings() -> ModuleType:
    module = ModuleType("pydantic_ai._griffe")

    def doc_descriptions(*args: "Any", **others: "Any") -> "Any":
        from importlib import import_module

        sys.modules.pop(module.__name__, None)
        return import_module(module.__name__).doc_descriptions(*args, **others)

    setattr(module, "doc_descriptions", doc_descriptions)  # noqa: B010 - a module's type has none
    return module


class _Finder:
    def find_spec(
        self, name: str, path: "Sequence[str] | None", target: ModuleType | None = None
    ) -> "ModuleSpec | None":
        kind = _SPECIAL.get(name) or (_DeferredModels if name in DEFERRED_MODELS else None)
        kind = _LazyPackage if name in LAZY_PACKAGES else kind
        if kind is None:
            return None
        from importlib.machinery import PathFinder, SourceFileLoader

        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = kind(spec.loader)  # pyright: ignore[reportAttributeAccessIssue] - as good as one
        return spec


class _Loader:
    def __init__(self, real: "SourceFileLoader") -> None:
        self._real = real

    def __getattr__(self, name: str) -> "Any":
        return getattr(self._real, name)


class _DeferredModels(_Loader):
    def exec_module(self, module: ModuleType) -> None:
        from pydantic import TypeAdapter
        from pydantic._internal import _config

        defaults: dict[str, object] = vars(_config).get("config_defaults", {})
        before, name = defaults.get("defer_build", False), "_defer_build"
        adapters = vars(TypeAdapter).get(name)
        defaults["defer_build"] = True
        setattr(TypeAdapter, name, True)
        try:
            self._real.exec_module(module)
        finally:
            defaults["defer_build"] = before
            setattr(TypeAdapter, name, adapters)


class _Patterns(_Loader):
    """Caches compiled expressions as Python caches compiled modules: in the same place, by the same rules.

    Otherwise 450 of them are compiled each time. Only those that a module compiles when it is
    imported are kept: others may contain anything.
    """

    path = ""
    compiled: "dict[tuple[str | bytes, int], bytes]" = {}  # noqa: RUF012 - one for the process
    added = False

    def exec_module(self, module: ModuleType) -> None:
        self._real.exec_module(module)
        _keep_compiled(vars(module))


def _keep_compiled(names: "dict[str, Any]") -> None:
    import marshal

    compile_now, sre, cls = names["compile"], names["_sre"], _Patterns
    folder = __file__.rpartition("startup")[0]
    cls.path = f"{folder}__pycache__/patterns.{sys.implementation.cache_tag}.{sre.MAGIC}"
    try:
        with open(cls.path, "rb") as file:  # noqa: PTH123 - to import nothing
            cls.compiled.update(marshal.load(file))  # noqa: S302 - trusted like the modules next to it
    except (OSError, ValueError, EOFError, TypeError):
        cls.added = True  # missing or unreadable

    def compile_once(pattern: "Any", flags: int = 0) -> "Any":
        try:
            held, code, *others = marshal.loads(cls.compiled[pattern, flags])  # noqa: S302
            return sre.compile(pattern, held, memoryview(code).cast("I").tolist(), *others)
        except (KeyError, TypeError, ValueError, RuntimeError, EOFError):
            return compile_now(pattern, flags)

    def keep(pattern: "Any", held: int, code: list[int], *others: "Any") -> "Any":
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        asked: int = frame.f_locals.get("flags", 0)
        while frame is not None and frame.f_code.co_name != "<module>":
            frame = frame.f_back
        if pattern is not None and frame and frame.f_globals.get("__name__") != "__main__":
            from array import array

            entry = (held, array("I", code).tobytes(), *others)
            cls.compiled[pattern, int(asked)], cls.added = marshal.dumps(entry), True
        return sre.compile(pattern, held, code, *others)

    recorder = ModuleType("_sre")
    vars(recorder).update({**vars(sre), "compile": keep})
    names.update(compile=compile_once, _sre=recorder)


def keep_patterns() -> None:
    if not _Patterns.added or not _Patterns.path or sys.dont_write_bytecode:
        return
    import marshal
    import os

    fresh = f"{_Patterns.path}.{os.getpid()}"
    try:
        with open(fresh, "xb") as file:  # noqa: PTH123
            marshal.dump(_Patterns.compiled, file)
        os.replace(fresh, _Patterns.path)  # noqa: PTH105
    except OSError:
        if os.path.exists(fresh):  # noqa: PTH110
            os.unlink(fresh)  # noqa: PTH108


class _Dataclasses(_Loader):
    def exec_module(self, module: ModuleType) -> None:
        """Compile a class's methods, and write its docstring, when they are first used.

        Doing this at once for the 600 dataclasses that a message needs takes a fifth of the startup, and
        imports `inspect`, which is as large as everything else a short command needs.
        """
        later = _LaterModule("inspect")
        sys.modules.setdefault("inspect", later)
        self._real.exec_module(module)
        later.leave()
        names = vars(module)
        create, process = names.get("_create_fn"), names.get("_process_class")
        if create is None or process is None:
            return  # Python 3.13 compiles them together, which is quick

        def process_later(cls: type, *args: "Any") -> type:
            if cls.__doc__:
                return process(cls, *args)
            doc = _LaterDoc()
            setattr(cls, "__doc__", doc)  # noqa: B010 - a type's may be looked up
            made = process(cls, *args)
            doc.complete = True
            return made

        def create_later(name: str, *args: "Any", **others: "Any") -> _LaterMethod:
            return _LaterMethod(name, lambda: create(name, *args, **others))

        names.update(_create_fn=create_later, _process_class=process_later)


class _LaterModule(ModuleType):
    def __getattr__(self, name: str) -> "Any":
        from importlib import import_module

        self.leave()
        return getattr(import_module(self.__name__), name)

    def leave(self) -> None:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]


class _LaterMethod:
    """Replaces a method in its class until it is first looked up."""

    def __init__(self, name: str, create: "Callable[[], FunctionType]") -> None:
        self.__name__ = name
        self._create = create
        self._method: FunctionType | None = None

    def __get__(self, one: object, owner: type) -> "Any":
        method = self._method = self._method or self._create()
        for base in owner.__mro__:
            if vars(base).get(self.__name__) is self:
                method.__qualname__ = f"{base.__qualname__}.{self.__name__}"
                setattr(base, self.__name__, method)
        return method.__get__(one, owner)

    def __call__(self, one: object) -> "Any":
        """For a method that Python has wrapped, such as `__repr__`."""
        return self.__get__(one, type(one))()


class _LaterDoc:
    complete = False

    def __get__(self, one: object, owner: type) -> str:
        if not self.complete:
            return "to come"
        from inspect import signature

        doc = owner.__name__ + str(signature(owner)).replace(" -> None", "")
        owner.__doc__ = doc
        return doc


class _Typing(_Loader):
    def exec_module(self, module: ModuleType) -> None:
        """Keep forward references as text, instead of compiling 2,500 of them at once."""
        self._real.exec_module(module)

        def as_it_is(text: str, *_: object) -> str:
            return text  # its evaluator accepts either

        vars(module)["compile"] = as_it_is


class _LazyPackage(_Loader):
    def exec_module(self, module: ModuleType) -> None:
        """Run the package without its imports, and without assignments that need them, until used."""
        import ast
        import os

        path = self._real.path
        tree = ast.parse(self._real.get_data(path))
        names = _Names(module)
        statements: list[ast.stmt] = []
        for node in tree.body:
            used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
            match node:
                case ast.ImportFrom(module=origin) if origin != "__future__":
                    where = "." * node.level + (origin or "")
                    names.imported |= {
                        one.asname or one.name: (where, one.name) for one in node.names
                    }
                case (
                    ast.Assign(targets=[ast.Name(id=name)])
                    | ast.AnnAssign(target=ast.Name(id=name))
                ) if names.knows(used) and name != "__all__":
                    names.assigned[name] = (
                        names.knows(used - {name}),
                        compile(ast.Module([node], []), path, "exec"),
                    )
                case _:
                    statements.append(node)
        if "*" in names.imported:
            self._real.exec_module(module)
            return
        # A name that is also a file's would be shadowed by that module once it is imported.
        files = {entry.partition(".")[0] for entry in os.listdir(os.path.dirname(path))}  # noqa: PTH120, PTH208
        same = {n for n in files & names.imported.keys() if names.imported[n] != (".", n)}
        used = {n.id for part in statements for n in ast.walk(part) if isinstance(n, ast.Name)}
        setattr(module, "__getattr__", names)  # noqa: B010 - a module's type has none
        for name in sorted(same | names.knows(used)):
            getattr(module, name)
        tree.body = statements
        exec(compile(tree, path, "exec"), vars(module))  # noqa: S102 - the package's own code
        names.others, vars(module)["__getattr__"] = vars(module)["__getattr__"], names
        if module.__name__ in _FIRST:
            from importlib import import_module

            import_module(_FIRST[module.__name__])


class _Names:
    """A package's names that are imported or assigned on first access."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self.imported: dict[str, tuple[str, str]] = {}
        self.assigned: dict[str, tuple[set[str], Any]] = {}
        self.others: Any = self

    def knows(self, names: set[str]) -> set[str]:
        return names & (self.imported.keys() | self.assigned.keys())

    def __call__(self, name: str) -> "Any":
        from importlib import import_module
        from importlib.util import find_spec

        package = self._module.__name__
        if name in self.assigned:
            needed, code = self.assigned[name]
            for each in sorted(needed):
                getattr(self._module, each)
            exec(code, vars(self._module))  # noqa: S102 - the package's own code
            return vars(self._module)[name]
        if name in self.imported:
            origin, there = self.imported[name]
            value: Any = None
            if origin.strip("."):
                value = getattr(import_module(origin, package), there, None)
            if value is None:  # a module, such as `from . import types`
                value = import_module(f"{origin.rstrip('.')}.{there}", package)
            setattr(self._module, name, value)
            return value
        if not name.startswith("__") and find_spec(f"{package}.{name}") is not None:
            return import_module(f"{package}.{name}")  # its imports would have loaded it
        if self.others is not self:
            return self.others(name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")


_SPECIAL: "dict[str, type[_Loader]]" = {
    "dataclasses": _Dataclasses,
    "re._compiler": _Patterns,
    "typing": _Typing,
}
