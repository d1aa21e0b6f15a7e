"""Read policy options: refuse unknown names with a hint, and read YAML without guessing types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rainbow_sched.documents.reader import DocumentLimits, read
from rainbow_sched.model.errors import Invalid, TooLarge
from rainbow_sched.model.hints import did_you_mean

MAX_YAML_CHARS = 16 * 1_024  # bounds the time to read a policy's option
MAX_YAML_DEPTH = 8  # bounds the nesting of a policy's option
_LIMITS = DocumentLimits(bytes=4 * MAX_YAML_CHARS, depth=MAX_YAML_DEPTH)


def take(policy: str, options: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """Return the options completed with defaults; raise Invalid for a name that `policy` does not have."""
    for name, value in options.items():
        if name not in defaults:
            known = did_you_mean(name, defaults) if defaults else "; it takes none"
            raise Invalid(f"policy {policy!r} has no option {name!r}{known}")
        if not isinstance(value, str):
            raise Invalid(f"option {name!r} of policy {policy!r} must be text, not {type(value).__name__}")
    return {**defaults, **options}


def read_yaml(text: str, where: str) -> Any:
    """Read lists, maps and text from YAML; every scalar stays text."""
    if len(text) > MAX_YAML_CHARS:
        raise TooLarge(f"at most {MAX_YAML_CHARS} characters, not {len(text)}", where=where)
    try:
        return read(text, _LIMITS, scalars_as_text=True).data
    except Invalid as error:
        raise type(error)(error.what, where=f"{where} {error.where}".rstrip()) from None
