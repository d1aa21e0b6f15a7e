"""Dialects: pure text in, one Request out."""

from rainbow.jobspecs.registry import DIALECTS, Dialect, dialects, parse

__all__ = ["DIALECTS", "Dialect", "dialects", "parse"]
