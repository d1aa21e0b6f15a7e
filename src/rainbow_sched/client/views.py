"""Base of the server's answers: frozen values, made from messages and converted to plain JSON."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from rainbow_sched.model.errors import RainbowError

V = TypeVar("V", bound="ServerValue")


def timestamp(seconds: float) -> str:
    """Format a time as RFC 3339 in UTC, to the millisecond."""
    try:
        at = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    except (OverflowError, ValueError, OSError):  # one invalid time must not prevent the output of the others
        return f"{seconds:g}"
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class ServerValue:
    """Base of all values in answers of the server; an unknown value has no key in `as_dict`."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: times as text, unknown values left out."""
        out: dict[str, Any] = {}
        for spec in fields(self):
            value = getattr(self, spec.name)
            if value is None or (isinstance(value, str | tuple | Mapping) and not value):
                continue
            out[spec.name] = _plain(spec.name, value)
        return out


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, ServerValue):
        return value.as_dict()
    if isinstance(value, tuple):
        return [_plain("", item) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain("", item) for key, item in value.items()}
    if (name.endswith("_at") or name == "at") and isinstance(value, float):
        return timestamp(value)
    return value


def from_message(cls: type[V], message: Any, **convert: Callable[[Any], Any]) -> V:
    """Create a view from the fields of the same names, a repeated one as a tuple.

    An unset optional field keeps the view's default. `convert` holds functions for values by name.
    """
    message_fields = message.DESCRIPTOR.fields_by_name
    values: dict[str, Any] = {}
    for spec in fields(cls):
        message_field = message_fields.get(spec.name)
        if message_field is None or (message_field.has_presence and not message.HasField(spec.name)):
            continue
        function = convert.get(spec.name) or (tuple if message_field.is_repeated else None)
        value = getattr(message, spec.name)
        values[spec.name] = function(value) if function else value
    return cls(**values)


def from_messages(cls: type[V], messages: Iterable[Any]) -> tuple[V, ...]:
    """Create a view of each message."""
    return tuple(from_message(cls, message) for message in messages)


def json_object(text: str) -> dict[str, Any]:
    if not text:
        return {}
    try:
        value = json.loads(text)
    except ValueError as error:
        raise RainbowError(f"the server sent invalid JSON: {error}") from None
    return value if isinstance(value, dict) else {}
