"""Find, read and write `rainbow-config.yaml`, in the format of the prototype.

Known keys: `scheduler {secret, name, algorithms {selection, match}}`, `cluster {name, secret, token}`,
`graphdatabase {name, host, options}`, `clusters [{name, token}]`. Additions to the prototype's format are keys at
the top level: `server` (an address or a list), `token` and `tls {ca, cert, key}`. Other keys are kept, in order.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rainbow_sched.client.private_files import OTHERS, write_whole
from rainbow_sched.model.errors import Invalid, NotFound, TooLarge

FILE_NAME = "rainbow-config.yaml"
MAX_BYTES = 1 << 20  # bounds the memory for a wrong file


@dataclass(frozen=True, slots=True)
class Config:
    """The content of one config file."""

    values: Mapping[str, Any] = field(default_factory=dict)
    path: Path | None = None  # None: there is no file

    def section(self, *keys: str) -> Mapping[str, Any]:
        """Return the mapping under `keys`, or an empty one."""
        value = self.get(*keys)
        return value if isinstance(value, Mapping) else {}

    def get(self, *keys: str) -> Any:
        """Return the value under `keys`, or None."""
        value: Any = self.values
        for key in keys:
            if not isinstance(value, Mapping) or key not in value:
                return None
            value = value[key]
        return value

    def exposed(self) -> bool:
        """Return True if other users of the machine may read or change the file, which holds secrets."""
        return self.path is not None and self.path.exists() and bool(self.path.stat().st_mode & OTHERS)

    def text(self, *keys: str) -> str:
        """Return the value under `keys` as text; empty if it is absent, null or not a scalar."""
        value = self.get(*keys)
        return "" if value is None or isinstance(value, Mapping | list) else str(value)

    def with_value(self, value: object, *keys: str) -> Config:
        """Return a copy with one value set; the order of keys is kept."""
        return Config(_with_value(self.values, keys, value), self.path)

    def cluster_tokens(self) -> dict[str, str]:
        """Return the submission tokens by cluster, from `clusters` and `cluster`."""
        entries = [*self._clusters(), self.section("cluster")]
        return {
            str(entry["name"]): str(entry["token"])
            for entry in entries
            if isinstance(entry, Mapping) and entry.get("name") and entry.get("token")
        }

    def with_cluster_token(self, name: str, token: str) -> Config:
        """Return a copy with the submission token of `name` added to `clusters`, or replaced there."""
        entries = self._clusters()
        for index, entry in enumerate(entries):
            if isinstance(entry, Mapping) and entry.get("name") == name:
                entries[index] = {**entry, "token": token}
                break
        else:
            entries.append({"name": name, "token": token})
        return self.with_value(entries, "clusters")

    def without_cluster(self, name: str) -> Config:
        """Return a copy without the credentials of the deleted cluster `name`; the same object if it has none."""
        config, entries = self, self._clusters()
        others = [entry for entry in entries if not (isinstance(entry, Mapping) and entry.get("name") == name)]
        if len(others) < len(entries):
            config = config.with_value(others, "clusters")
        if self.text("cluster", "name") == name:
            config = config.with_value({"name": "", "secret": ""}, "cluster")
        return config

    def _clusters(self) -> list[Any]:
        entries = self.get("clusters")
        return list(entries) if isinstance(entries, list) else []


def default_values(name: str, secret: str, address: str) -> dict[str, Any]:
    """Return the values that `config init` writes: all keys of the prototype, without its default secret."""
    return {
        "scheduler": {
            "secret": secret,
            "name": name,
            "algorithms": {
                "selection": {"name": "random", "options": {}},
                "match": {"name": "match", "options": {}},
            },
        },
        "cluster": {"name": "", "secret": ""},
        "graphdatabase": {"name": "memory", "host": address, "options": {"host": address}},
        "clusters": [],
    }


def find(explicit: str | None, environment: Mapping[str, str], *, new: bool = False) -> Path | None:
    """Return the file to use: from the flag, RAINBOW_CONFIG, the current folder or the user's folder; or None.

    Raise NotFound if a file was named and does not exist, unless it is a `new` one that is about to be written.
    """
    for named, origin in ((explicit, "--config-path"), (environment.get("RAINBOW_CONFIG"), "RAINBOW_CONFIG")):
        if named:
            path = Path(named)
            if not path.is_file() and not (new and not path.exists()):
                raise NotFound(f"there is no config file {named} ({origin}); write one with: rainbow config init")
            return path
    for path in (Path(FILE_NAME), user_path(environment)):
        if path.is_file():
            return path
    return None


def user_path(environment: Mapping[str, str]) -> Path:
    """Return the path of the user's own config: $XDG_CONFIG_HOME/rainbow/rainbow-config.yaml."""
    home = environment.get("XDG_CONFIG_HOME") or os.path.join(environment.get("HOME") or "~", ".config")
    return Path(home).expanduser() / "rainbow" / FILE_NAME


def load(path: Path | None) -> Config:
    """Read a config file; return an empty config without a path."""
    if path is None:
        return Config()
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise NotFound(f"cannot read {path}: {error.strerror}") from None
    if len(raw) > MAX_BYTES:
        raise TooLarge(f"{path}: a config file must not be larger than {MAX_BYTES} bytes")
    return Config(_parse(raw, path), path)


def save(config: Config, path: Path) -> None:
    """Write `config` to `path` atomically, readable by its owner only."""
    from rainbow_sched.documents.yaml_writer import to_yaml

    write_whole(path, to_yaml(dict(config.values)).encode())


def _parse(raw: bytes, path: Path) -> Mapping[str, Any]:
    from rainbow_sched.documents.reader import DocumentLimits, read  # many commands need no file

    try:
        values = read(raw.decode("utf-8-sig"), DocumentLimits(bytes=MAX_BYTES, nodes=MAX_BYTES)).data
    except UnicodeDecodeError as error:
        raise Invalid(f"is not UTF-8 text: {error}", where=str(path)) from None
    except Invalid as error:
        raise type(error)(error.what, where=f"{path} {error.where}".rstrip()) from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise Invalid("a config file must hold keys and values, for example `server: 127.0.0.1:50051`", where=str(path))
    return values


def _with_value(values: Mapping[str, Any], keys: tuple[str, ...], value: object) -> dict[str, Any]:
    inner = values.get(keys[0])
    if len(keys) == 1:
        return {**values, keys[0]: value}
    return {**values, keys[0]: _with_value(inner if isinstance(inner, Mapping) else {}, keys[1:], value)}
