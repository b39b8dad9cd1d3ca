"""`openclaw init` and `doctor`: what is found, planned, written and checked."""
