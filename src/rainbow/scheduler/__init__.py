"""Verbs: a snapshot goes in, a decision comes out; no I/O, no clock."""
