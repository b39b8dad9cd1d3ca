"""Framing of untrusted text: sanitise, fold, detect, wrap. Pure."""
