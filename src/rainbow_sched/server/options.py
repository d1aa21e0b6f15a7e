"""Options of a server, and their validation."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from rainbow_sched.client.private_files import check_private, write_whole
from rainbow_sched.client.settings import is_loopback
from rainbow_sched.model.errors import Invalid
from rainbow_sched.server.admission.limits import AdmissionLimits
from rainbow_sched.server.oidc import OidcOptions
from rainbow_sched.server.tls import TlsFiles

REGISTRATION_ENV = "RAINBOW_REGISTRATION_SECRET"
MAX_COUNTS = {  # fields of service.Settings and their maximum
    "bidders": 64,
    "breaker": 1_000,
    "output_cap": 2**40,
    "keep_days": 36_500,
    "keep_jobs": 10**9,
}
TIMING_NAMES = ("heartbeat", "silent_after", "lease", "long_poll", "bid_deadline", "stale_after")  # fields of Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The options of `rainbow server`."""

    listen: str = "127.0.0.1:50051"
    db: str = ""  # empty: SQLite in the data folder
    data_dir: Path
    policy: str = ""  # empty: the default
    policy_options: Mapping[str, str] = field(default_factory=dict)
    graph_backend: str = "memory"
    graph_options: Mapping[str, str] = field(default_factory=dict)
    registration_secret: str = ""  # from the configuration file; the environment takes precedence
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_ca: Path | None = None  # if given, clients must present a certificate signed by it
    insecure: bool = False  # allow plain text on other addresses than localhost
    anonymous_satisfy: bool = False
    log_level: str = "info"
    timing: Mapping[str, object] = field(default_factory=dict)  # seconds by TIMING_NAMES
    counts: Mapping[str, object] = field(default_factory=dict)  # whole numbers by MAX_COUNTS
    limits: AdmissionLimits = field(default_factory=AdmissionLimits)
    oidc: OidcOptions | None = None

    def database(self) -> str:
        return self.db or f"sqlite:///{self.data_dir / 'rainbow.db'}"

    def tls_files(self) -> TlsFiles | None:
        """Return the TLS files that are given, or on other addresses than localhost those of `rainbow server init`."""
        if self.tls_cert and self.tls_key:
            return TlsFiles(self.tls_cert, self.tls_key, self.tls_ca)
        made = self.data_dir / "tls"
        if self.insecure or is_loopback(split_address(self.listen)[0]) or not (made / "server.pem").exists():
            return None
        return TlsFiles(made / "server.pem", made / "server.key", self.tls_ca)

    def check(self) -> None:
        """Raise Invalid for options that are unsafe or cannot work."""
        host, port = split_address(self.listen)
        if bool(self.tls_cert) != bool(self.tls_key):
            raise Invalid("TLS needs both --tls-cert and --tls-key")
        if self.tls_ca and not self.tls_files():
            raise Invalid("--tls-ca requires client certificates; it also needs --tls-cert and --tls-key")
        if not self.tls_files() and not self.insecure and not is_loopback(host):
            raise Invalid(
                f"{self.listen} can be reached from other machines, and without TLS every credential could be read on "
                "the way; run rainbow server init, or give --tls-cert and --tls-key, or listen on 127.0.0.1, or say "
                "--insecure"
            )
        if not 0 <= port <= 65535:
            raise Invalid(f"a port must be between 0 and 65535, not {port}")
        self.seconds()
        self.numbers()

    def seconds(self) -> dict[str, float]:
        """Return the given timings; raise Invalid for an unknown name or an invalid value."""
        timings = {}
        for name, value in self.timing.items():
            if name not in TIMING_NAMES:
                raise Invalid(f"scheduler.timing has no {name!r}; it has {', '.join(TIMING_NAMES)}")
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 86_400:
                raise Invalid(f"scheduler.timing.{name} is a number of seconds from above 0 to 86400, not {value!r}")
            timings[name] = float(value)
        return timings

    def numbers(self) -> dict[str, int]:
        """Return the given counts; raise Invalid for an unknown name or an invalid value."""
        counts = {}
        for name, value in self.counts.items():
            most = MAX_COUNTS.get(name)
            if most is None:
                raise Invalid(f"scheduler.counts has no {name!r}; it has {', '.join(MAX_COUNTS)}")
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
                raise Invalid(f"scheduler.counts.{name} is a whole number from 1 to {most}, not {value!r}")
            counts[name] = value
        return counts


def split_address(text: str) -> tuple[str, int]:
    """Parse `HOST:PORT`, `[::1]:PORT` or `:PORT` (all interfaces)."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit():
        raise Invalid(f"{text!r} is not an address to listen on; write HOST:PORT, for example 127.0.0.1:50051")
    return host.strip("[]"), int(port)


def registration_secret(options: ServerOptions) -> tuple[str, Path | None]:
    """Return the secret for registering clusters, and its file if it was generated at the first start."""
    given = os.environ.get(REGISTRATION_ENV, "") or options.registration_secret
    if given:
        return given, None
    path = options.data_dir / "registration.secret"
    if path.exists():
        check_private(path)
        secret = path.read_text().strip()
        if not secret:
            raise Invalid(f"{path} is empty; delete it, and the next start makes a new secret")
        return secret, path
    secret = secrets.token_urlsafe(32)
    write_secret(path, secret)
    return secret, path


def write_secret(path: Path, secret: str) -> None:
    """Write a secret to a file that only its owner can read."""
    write_whole(path, f"{secret}\n".encode())


def limits_from(section: Mapping[str, object]) -> AdmissionLimits:
    """Read the limits of a configuration file: `limits: {rate: 100, burst: 200}`; the others are defaults."""
    return AdmissionLimits(**_checked_values(section, "limits", {one.name: float for one in fields(AdmissionLimits)}))


def oidc_from(section: Mapping[str, object]) -> OidcOptions | None:
    """Read the issuer of a configuration file: `oidc: {issuer: ..., audience: ...}`; None if there is none."""
    if not section:
        return None
    kinds: dict[str, type] = {one.name: dict if one.name == "groups" else str for one in fields(OidcOptions)}
    return OidcOptions(**_checked_values(section, "oidc", kinds))


def _checked_values(section: Mapping[str, object], where: str, kinds: Mapping[str, type]) -> dict[str, Any]:
    """Return the values of a section; raise Invalid for an unknown key or a wrong type."""
    values: dict[str, Any] = {}
    for key, value in section.items():
        if key not in kinds:
            raise Invalid(f"unknown key {key!r}; the keys are {', '.join(kinds)}", where=where)
        kind = kinds[key]
        number = kind is float and isinstance(value, int | float) and not isinstance(value, bool)
        if not number and not isinstance(value, kind):
            raise Invalid(f"{key} cannot be {value!r}", where=where)
        values[key] = value
    return values
