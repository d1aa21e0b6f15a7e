"""Read job descriptions of all supported dialects into one Request."""

from rainbow_sched.jobspecs.registry import DIALECTS, Dialect, dialects, parse

__all__ = ["DIALECTS", "Dialect", "dialects", "parse"]
