"""Libraries that are imported piece by piece are the same libraries."""

import json
import subprocess
import sys
from typing import Any

import pytest

from openclaw.cli.startup import DEFERRED_MODELS, LAZY_PACKAGES

# What each name of these packages stands for, in words that two processes can compare.
DESCRIBED = """
import importlib, inspect, json, sys, warnings
warnings.simplefilter("ignore")
how, wanted = sys.argv[1], json.loads(sys.stdin.read())
if how != "plain":
    from openclaw.cli import startup
    startup.prepare()

def described(value):
    if inspect.ismodule(value):
        return value.__name__
    if inspect.isclass(value) or inspect.isroutine(value):
        return f"{value.__module__}.{value.__qualname__}"
    return str(type(value))

def public(module):
    listed = getattr(module, "__all__", None)
    return [name for name, value in vars(module).items() if not name.startswith("_")
            and (listed is None or name in listed or inspect.ismodule(value))]

found = {}
for package, names in wanted:
    module = importlib.import_module(package)
    names = public(module) if names is None else names
    if how == "backwards":
        names = reversed(names)
    found[package] = {name: described(getattr(module, name)) for name in names}
print(json.dumps(found))
"""

SCHEMAS = """
import importlib, inspect, json, sys
if sys.argv[1] != "plain":
    from openclaw.cli import startup
    startup.prepare()
import pydantic

def models(module):
    return {n: one for n, one in vars(module).items()
            if inspect.isclass(one) and issubclass(one, pydantic.BaseModel) and one.__module__ == module.__name__}

def schema(model):
    try:
        return model.model_json_schema()
    except Exception as error:
        return type(error).__name__

found = {name: models(importlib.import_module(name)) for name in json.loads(sys.stdin.read())}
built = {name: sum(bool(one.__pydantic_complete__) for one in each.values()) for name, each in found.items()}
schemas = {name: {n: schema(one) for n, one in each.items()} for name, each in found.items()}
print(json.dumps([built, schemas]))
"""

# Everything that Python writes for a dataclass, in words that two processes can compare.
DATACLASSES = """
import abc, json, sys
if sys.argv[1] != "plain":
    from openclaw.cli import startup
    startup.prepare()
import copy, dataclasses, inspect, pickle
from dataclasses import InitVar, dataclass, field

@dataclass(frozen=True, slots=True)
class Point:
    x: int
    names: list[str] = field(default_factory=list)

@dataclass(order=True)
class Ranked:
    "Has a docstring."
    rank: int = 3
    start: InitVar[int] = 4
    def __post_init__(self, start):
        self.started = start

@dataclass
class Named(Ranked):
    name: str = "n"
    def __init__(self):
        super().__init__(9, start=5)
        self.name = "x"

class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...

@dataclass(kw_only=True, unsafe_hash=True)
class Square(Shape):
    side: int
    inner: object = None
    def area(self):
        return self.side ** 2

class Child(Point):
    pass

def error(run):
    try:
        run()
    except Exception as raised:
        return [type(raised).__name__, str(raised)]

early = type(vars(Square)["__init__"]).__name__
point, ring, child = Point(1), Square(side=1), Child(1)
ring.inner = ring
kinds = (Point, Ranked, Named, Square, Child)
made = dataclasses.make_dataclass("Made", [("x", int)])
print(json.dumps([early, [
    [[k.__doc__, str(inspect.signature(k)), k.__init__.__qualname__, k.__repr__.__qualname__,
      inspect.isfunction(k.__eq__), str(k.__init__.__annotations__), sorted(vars(k))] for k in kinds],
    [repr(one) for one in (point, ring, child, Named(), Ranked(2), made(1), made)],
    [point == Point(1), point == Point(2), point == 1, Ranked(1) < Ranked(2), Named() == Named(), child == Child(1)],
    [repr(dataclasses.replace(point, x=2)), dataclasses.asdict(point), Point.__match_args__, Ranked(5).started],
    [repr(copy.deepcopy(point)), repr(pickle.loads(pickle.dumps(point))), hash(Square(side=1)) == hash(Square(side=1))],
    [error(lambda: setattr(point, "x", 2)), error(lambda: delattr(point, "x")), error(lambda: hash(point)),
     error(lambda: Point()), error(lambda: Shape()), error(lambda: Ranked(1) < 2), error(lambda: hash(Ranked()))],
]]))
"""

FUNCTION_TOOL = """
import json, sys
from openclaw.cli import startup
startup.prepare()
from pydantic_ai import Tool

def add(a: int):
    '''Add.

    Args:
        a: A number.
    '''

before = "griffe" in sys.modules
tool = Tool(add).tool_def
print(json.dumps([before, tool.description, tool.parameters_json_schema["properties"]["a"]["description"]]))
"""


def said(code: str, *arguments: str, given: str = "") -> Any:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# Importing all of it takes seconds, and nothing is put off: one process can say it all.
PLAIN = """
import contextlib as _contextlib, io as _io, json as _json, sys as _sys
_answers = []
for _code, _given in _json.loads(_sys.stdin.read()):
    _sys.argv, _sys.stdin, _out = ["-c", "plain"], _io.StringIO(_given), _io.StringIO()
    with _contextlib.redirect_stdout(_out):
        exec(_code)
    _answers.append(_json.loads(_out.getvalue()))
print(_json.dumps(_answers))
"""
PACKAGES = sorted(LAZY_PACKAGES)
MODULES = json.dumps(sorted(DEFERRED_MODELS - {"google.genai.types"}))


@pytest.fixture(scope="module")
def plain() -> dict[str, Any]:
    """What these programs say if the libraries are imported as always."""
    given = {
        DESCRIBED: json.dumps([(one, None) for one in PACKAGES]),
        SCHEMAS: MODULES,
        DATACLASSES: "",
        TYPED: "",
    }
    return dict(zip(given, said(PLAIN, given=json.dumps(list(given.items()))), strict=True))


def test_every_name_of_a_lazy_package_stands_for_the_same(plain: dict[str, Any]) -> None:
    expected = plain[DESCRIBED]
    wanted = [(one, list(expected[one])) for one in PACKAGES]
    assert sum(len(names) for _, names in wanted) > 1000
    assert said(DESCRIBED, "lazy", given=json.dumps(wanted)) == expected
    assert said(DESCRIBED, "backwards", given=json.dumps(wanted[::-1])) == expected


def test_models_that_are_built_later_are_the_same_models(plain: dict[str, Any]) -> None:
    built, expected = plain[SCHEMAS]
    built_later, later = said(SCHEMAS, "lazy", given=MODULES)
    assert later == expected
    assert all(built_later[module] < built[module] / 10 for module in built)


def test_what_a_lazy_package_does_not_have_is_an_attribute_error() -> None:
    code = (
        "from openclaw.cli import startup; startup.prepare(); import json, mcp, pydantic_ai;"
        "print(json.dumps([hasattr(mcp, 'nothing'), hasattr(pydantic_ai, '__nothing__')]))"
    )
    assert said(code) == [False, False]


def test_a_dataclass_whose_methods_are_written_later_is_the_same(plain: dict[str, Any]) -> None:
    early, later = said(DATACLASSES, "later")
    assert later == plain[DATACLASSES][1]
    if sys.version_info < (3, 13):
        assert early == "_LaterMethod"


def test_docstrings_of_functions_are_read_when_a_tool_is_made_of_one() -> None:
    assert said(FUNCTION_TOOL) == [False, "Add.", "A number."]


TYPED = """
import json, sys
if sys.argv[1] != "plain":
    from openclaw.cli import startup
    startup.prepare()
import typing
from typing import ForwardRef, List, Optional
from typing_extensions import TypedDict

class Node(TypedDict):
    next: "Optional[Node]"
    names: List["str"]

def name(one: "Node", other: "list[int] | None" = None) -> "dict[str, Node]": ...

hints = [str(typing.get_type_hints(one)) for one in (Node, name)]
try:
    typing.get_type_hints(type("Wrong", (), {"__annotations__": {"a": "no such type"}}))
except SyntaxError as error:
    hints.append(type(error).__name__)
import pydantic
from pydantic_ai.messages import TextPart, ToolCallPart
from pydantic_ai.models import openai
adapter = openai._RESPONSE_PART_ADAPTER
parts = [adapter.dump_python(one) for one in (TextPart("a"), ToolCallPart("f", {"x": 1}, "c"))]
checked = str([adapter.validate_python(one) for one in parts])
schema = pydantic.TypeAdapter(Node).json_schema()
print(json.dumps([hints, ForwardRef("int") == ForwardRef("int"), parts, checked, schema,
                  adapter.json_schema()], default=str))
"""


def test_names_of_types_and_adapters_that_are_worked_out_later_mean_the_same(
    plain: dict[str, Any],
) -> None:
    assert said(TYPED, "lazy") == plain[TYPED]
