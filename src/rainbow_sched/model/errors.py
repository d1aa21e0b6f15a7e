"""All errors that Rainbow raises, one class per kind.

Branch on the class, never on the text. The server maps each class to one gRPC status
(`server/status.py`), the command line maps each class to one exit code.
"""

from __future__ import annotations


class RainbowError(Exception):
    """Base class of all errors; the message names the cause and the remedy."""


class Invalid(RainbowError):
    """The input is malformed or breaks a rule; do not retry without a change."""

    def __init__(self, message: str, *, where: str = "") -> None:
        """`where` is the line, path or vertex with the error; the message begins with it."""
        super().__init__(f"{where}: {message}" if where else message)
        self.where = where
        self.what = message


class TooLarge(Invalid):
    """The input exceeds a limit that protects the server."""


class NotFound(RainbowError):
    """The object does not exist, or the caller may not see it."""


class AlreadyExists(RainbowError):
    """The name is taken."""


class Conflict(RainbowError):
    """The object's state does not allow this, or a concurrent change came first."""


class Impossible(RainbowError):
    """No cluster could ever run this."""


class Unauthenticated(RainbowError):
    """The credential is missing, unknown, expired or revoked."""


class Denied(RainbowError):
    """The credential is valid, but does not grant this."""


class Exhausted(RainbowError):
    """A limit on rate, size or number is reached; retry after `retry_after` seconds."""

    def __init__(self, message: str, *, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Unavailable(RainbowError):
    """Not reachable or not ready; the same call may succeed later."""


class Unconfirmed(Unavailable):
    """The outcome of a write is unknown: the store's answer was lost."""


class Corrupt(RainbowError):
    """Stored data does not match its hash and is not used."""


class Unsupported(RainbowError):
    """A graph backend or manager backend does not support this."""
