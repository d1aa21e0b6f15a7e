"""Read job descriptions in every supported dialect into one Request; pure."""

from rainbow_sched.jobspecs.registry import DIALECTS, Dialect, dialects, parse

__all__ = ["DIALECTS", "Dialect", "dialects", "parse"]
