"""The client's servers and credentials, from flags, environment, config file and defaults, in this order.

The default token is the one in the data folder of the user's own server on this machine.
"""

from __future__ import annotations

import ipaddress
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from rainbow_sched.client import config as configs
from rainbow_sched.client.config import Config
from rainbow_sched.model.errors import Invalid, NotFound

DEFAULT_SERVER = "127.0.0.1:50051"
DEFAULT_PORT = 50051  # as in gRPC's examples
Origin: TypeAlias = Literal["flag", "environment", "config", "local server", "default"]


class Address(NamedTuple):
    """Host and port of a server, and whether to connect with TLS."""

    host: str
    port: int
    tls: bool

    @property
    def target(self) -> str:
        """The address in gRPC's notation."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return self.target


@dataclass(frozen=True, slots=True)
class Tls:
    """Files for TLS; empty: the system's authorities and no client certificate."""

    ca: str = ""
    cert: str = ""
    key: str = ""

    def __post_init__(self) -> None:
        if bool(self.cert) != bool(self.key):
            raise Invalid("a client certificate needs both files: set RAINBOW_CERT and RAINBOW_KEY, or neither")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """All settings of a client. Its repr shows no credentials."""

    servers: tuple[Address, ...] = (Address("127.0.0.1", DEFAULT_PORT, False),)
    token: str = field(default="", repr=False)
    cluster_tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    cluster: str = ""  # this machine's own cluster
    cluster_secret: str = field(default="", repr=False)
    registration_secret: str = field(default="", repr=False)
    tls: Tls = Tls()
    config: Config = field(default_factory=Config, repr=False)
    origins: Mapping[str, Origin] = field(default_factory=dict, repr=False)

    def describe_credentials(self, *, registering: bool = False) -> str:
        """Return which credentials a call sends and where they come from, without their values."""
        if registering and self.registration_secret:
            return f"the registration secret from {self._origin('registration_secret', 'RAINBOW_REGISTRATION_SECRET')}"
        credentials = [f"the token from {self._origin('token', 'RAINBOW_TOKEN')}"] if self.token else []
        if self.cluster_tokens and not registering:
            credentials.append(f"the submission tokens of {', '.join(self.cluster_tokens)} from {self.config.path}")
        return " and ".join(credentials)

    def _origin(self, name: str, variable: str) -> str:
        descriptions: dict[str, str] = {
            "environment": variable,
            "config": str(self.config.path),
            "local server": "the data folder of this user's own server",
        }
        return descriptions.get(self.origins.get(name, ""), "the command line")

    def secret_for(self, cluster: str) -> str:
        """Return the credential for a call on behalf of a cluster.

        The secret in the config file is used for the cluster in the config file only; a secret from the environment
        is used for any cluster.
        """
        if self.cluster_secret and (self.cluster in ("", cluster) or self.origins.get("cluster_secret") != "config"):
            return self.cluster_secret
        return self.token


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Settings from the command line or from code; None: not set."""

    server: str | None = None
    config_path: str | None = None
    token: str | None = field(default=None, repr=False)
    new_config: bool = False  # the named config file need not exist yet


def resolve(overrides: Overrides | None = None, environment: Mapping[str, str] | None = None) -> ClientSettings:
    """Return the settings: flag > environment > config file > the user's own server > default."""
    overrides = overrides or Overrides()
    environment = os.environ if environment is None else environment
    path = configs.find(overrides.config_path, environment, new=overrides.new_config)
    config = Config(path=path) if path is not None and not path.exists() else configs.load(path)
    origins: dict[str, Origin] = {}

    def pick(name: str, flag: str | None, variable: str, *from_config: str) -> str:
        candidates: tuple[tuple[str, Origin], ...] = (
            (flag or "", "flag"),
            (environment.get(variable, ""), "environment"),
            *((text, "config") for text in from_config),
        )
        for text, origin in candidates:
            if text:
                origins[name] = origin
                return text
        origins[name] = "default"
        return ""

    server_text = pick("server", overrides.server, "RAINBOW_SERVER", _configured_servers(config))
    ca = pick("ca", None, "RAINBOW_CA", config.text("tls", "ca"))
    servers = addresses(server_text or DEFAULT_SERVER, encrypted=bool(ca))
    token = pick("token", overrides.token, "RAINBOW_TOKEN", config.text("token"))
    if not token:
        token = own_server_token(servers, environment)
        origins["token"] = "local server" if token else "default"
    return ClientSettings(
        servers=servers,
        token=token,
        cluster_tokens=config.cluster_tokens(),
        cluster=config.text("cluster", "name"),
        cluster_secret=pick("cluster_secret", None, "RAINBOW_CLUSTER_SECRET", config.text("cluster", "secret")),
        registration_secret=pick(
            "registration_secret", None, "RAINBOW_REGISTRATION_SECRET", config.text("scheduler", "secret")
        ),
        tls=Tls(
            ca,
            pick("cert", None, "RAINBOW_CERT", config.text("tls", "cert")),
            pick("key", None, "RAINBOW_KEY", config.text("tls", "key")),
        ),
        config=config,
        origins=origins,
    )


def with_own_server_token(settings: ClientSettings) -> ClientSettings:
    """Add the token of the user's own server if no token is set; the server may have been started just now."""
    if settings.token or settings.origins.get("token") != "default":
        return settings
    token = own_server_token(settings.servers, os.environ)
    origins: Mapping[str, Origin] = {**settings.origins, "token": "local server"}
    return replace(settings, token=token, origins=origins) if token else settings


def _configured_servers(config: Config) -> str:
    """Return the key `server` (text or list), else the address that the prototype's Python client uses."""
    servers = config.get("server")
    if isinstance(servers, list):
        return ",".join(str(item) for item in servers)
    return config.text("server") or config.text("graphdatabase", "options", "host")


def new_config_values(settings: ClientSettings) -> dict[str, Any]:
    """Return the values of a new config file with these servers; the prototype's clients can read it too."""
    values = configs.default_values("rainbow", "", str(settings.servers[0]))
    if settings.origins.get("server") != "default":
        values["server"] = ",".join(f"{'https://' if one.tls else ''}{one}" for one in settings.servers)
    return values


def addresses(text: str, *, encrypted: bool = False) -> tuple[Address, ...]:
    """Parse `host:port,host:port`. Only loopback addresses and `http://` are unencrypted."""
    servers = tuple(_address(part.strip(), encrypted) for part in text.split(",") if part.strip())
    if not servers:
        raise Invalid(f"{text!r} names no server; write for example {DEFAULT_SERVER}")
    return servers


def _address(text: str, encrypted: bool) -> Address:
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "", text
    if scheme not in ("", "http", "https"):
        raise Invalid(f"{text!r}: write a server as HOST:PORT, https://HOST:PORT, or http://HOST:PORT for plain text")
    host, port = _host_port(rest.rstrip("/"), text)
    tls = scheme == "https" or (scheme == "" and (encrypted or not is_loopback(host)))
    return Address(host, port, tls)


def _host_port(rest: str, text: str) -> tuple[str, int]:
    if rest.startswith("["):
        host, _, tail = rest[1:].partition("]")
        port = tail.removeprefix(":")
    elif rest.count(":") > 1:
        host, port = rest, ""  # a bare IPv6 address
    else:
        host, _, port = rest.partition(":")
    if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise Invalid(f"{text!r}: a port must be a number from 1 to 65535")
    return host or "127.0.0.1", int(port) if port else DEFAULT_PORT


def own_server_token(servers: tuple[Address, ...], environment: Mapping[str, str]) -> str:
    """Return the administrator's token that the user's own server wrote at its first start, or an empty text.

    It is used for servers on this machine only, and only if the file belongs to this user and is private.
    """
    if not all(is_loopback(server.host) for server in servers):
        return ""
    home = environment.get("XDG_DATA_HOME") or os.path.join(environment.get("HOME") or "/nonexistent", ".local/share")
    path = Path(home) / "rainbow" / "admin.token"
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            return ""
        return read_secret(str(path), "a token")
    except (OSError, NotFound, Invalid):
        return ""


def read_secret(path: str, what: str) -> str:
    """Return the secret in a file, without the final line end."""
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise NotFound(f"cannot read {what} from {path}: {error.strerror}") from None
    except UnicodeError:
        text = ""
    if not text or "\n" in text:
        raise Invalid(f"{path} must contain only {what}, on one line")
    return text


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach `host`, a name or an IP address."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
