"""Where values came from and what may leave: decides about calls, never performs them.

Pure: no I/O, no clock, no environment.
"""
