"""Finds the tools that fit a need, without a model call and without the network."""

from openclaw.discovery.index import (
    IndexCache,
    Match,
    ToolIndex,
    build_index,
    load_index,
    load_vectors,
    save_index,
)
from openclaw.discovery.words import ToolDocument, catalogue_hash

__all__ = [
    "IndexCache",
    "Match",
    "ToolDocument",
    "ToolIndex",
    "build_index",
    "catalogue_hash",
    "load_index",
    "load_vectors",
    "save_index",
]
