"""Frozen values and state machines; no I/O. Every other package uses them."""
