"""Framing of untrusted text: sanitise, fold, detect, wrap. Pure."""

from openclaw.content.detection.detect import Detection, detect
from openclaw.content.frame import frame
from openclaw.content.labels import UnsafeSchema, sanitise_label, sanitise_schema
from openclaw.content.sanitise import sanitise

__all__ = [
    "Detection",
    "UnsafeSchema",
    "detect",
    "frame",
    "sanitise",
    "sanitise_label",
    "sanitise_schema",
]
