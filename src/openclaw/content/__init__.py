"""Framing of untrusted text: sanitise, fold, detect, wrap. Pure."""

from openclaw.content.detect import Detection, detect
from openclaw.content.labels import UnsafeSchema, sanitise_label, sanitise_schema
from openclaw.content.sanitise import sanitise
from openclaw.content.wrap import frame

__all__ = [
    "Detection",
    "UnsafeSchema",
    "detect",
    "frame",
    "sanitise",
    "sanitise_label",
    "sanitise_schema",
]
