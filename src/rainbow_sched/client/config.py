"""The prototype's `rainbow-config.yaml`: found, read as it is, changed in place, never losing a key.

Known keys: `scheduler {secret, name, algorithms {selection, match}}`, `cluster {name, secret,
token}`, `graphdatabase {name, host, options}`, `clusters [{name, token}]`. Our own additions are
new keys at the top: `server` (address or list of them), `token` and `tls {ca, cert, key}`.
Whatever else stands in the file stays there, in its order.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rainbow_sched.client.private_files import write_whole
from rainbow_sched.model.errors import Invalid, NotFound, TooLarge

FILE_NAME = "rainbow-config.yaml"
MAX_BYTES = 1 << 20
MAX_DEPTH = 32


@dataclass(frozen=True, slots=True)
class Config:
    """One config file's content. Never changed: `with_value` returns the next one."""

    values: Mapping[str, Any] = field(default_factory=dict)
    path: Path | None = None  # None: there is no file

    def section(self, *keys: str) -> Mapping[str, Any]:
        """The mapping under `keys`; empty when it is not there."""
        found = self.get(*keys)
        return found if isinstance(found, Mapping) else {}

    def get(self, *keys: str) -> Any:
        """The value under `keys`, or None."""
        at: Any = self.values
        for key in keys:
            if not isinstance(at, Mapping) or key not in at:
                return None
            at = at[key]
        return at

    def text(self, *keys: str) -> str:
        """The value under `keys` as text; empty when it is absent, null or not a plain value."""
        found = self.get(*keys)
        return "" if found is None or isinstance(found, Mapping | list) else str(found)

    def with_value(self, value: object, *keys: str) -> Config:
        """This config with one value set; every other key stays where it is."""
        return Config(_placed(self.values, keys, value), self.path)

    def cluster_tokens(self) -> dict[str, str]:
        """Submission tokens by cluster, from `clusters` and `cluster`."""
        listed = self.get("clusters")
        entries = [*(listed if isinstance(listed, list) else []), self.section("cluster")]
        return {
            str(entry["name"]): str(entry["token"])
            for entry in entries
            if isinstance(entry, Mapping) and entry.get("name") and entry.get("token")
        }

    def with_cluster_token(self, name: str, token: str) -> Config:
        """This config with `name`'s submission token in `clusters`, beside the ones that are there."""
        listed = self.get("clusters")
        entries = list(listed) if isinstance(listed, list) else []
        for at, entry in enumerate(entries):
            if isinstance(entry, Mapping) and entry.get("name") == name:
                entries[at] = {**entry, "token": token}
                break
        else:
            entries.append({"name": name, "token": token})
        return self.with_value(entries, "clusters")

    def without_cluster(self, name: str) -> Config:
        """This config without the credentials of `name`, which open nothing once it is deleted."""
        listed = self.get("clusters")
        kept = self
        if isinstance(listed, list):
            left = [one for one in listed if not (isinstance(one, Mapping) and one.get("name") == name)]
            kept = kept.with_value(left, "clusters") if len(left) < len(listed) else kept
        if self.text("cluster", "name") == name:
            kept = kept.with_value({"name": "", "secret": ""}, "cluster")
        return kept


def starting_values(name: str, secret: str) -> dict[str, Any]:
    """What `config init` writes: every key of the prototype, and no secret that anybody could guess."""
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
        "graphdatabase": {"name": "memory", "host": "127.0.0.1:50051", "options": {"host": "127.0.0.1:50051"}},
        "clusters": [],
    }


def find(explicit: str | None, environment: Mapping[str, str], *, new: bool = False) -> Path | None:
    """The file to use: the flag's, RAINBOW_CONFIG's, the folder's, the user's; None when there is none.

    A file that was named but is not there is an error, so that a typo never means "no config"; not so for a
    `new` one, which is about to be written.
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
    """Where a user's own config lies: $XDG_CONFIG_HOME/rainbow/rainbow-config.yaml."""
    home = environment.get("XDG_CONFIG_HOME") or os.path.join(environment.get("HOME") or "~", ".config")
    return Path(home).expanduser() / "rainbow" / FILE_NAME


def load(path: Path | None) -> Config:
    """Read a config file; no path is an empty config."""
    if path is None:
        return Config()
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise NotFound(f"cannot read {path}: {error.strerror}") from None
    if len(raw) > MAX_BYTES:
        raise TooLarge(f"{path}: a config file has at most {MAX_BYTES} bytes")
    return Config(_parse(raw, path), path)


def save(config: Config, path: Path) -> None:
    """Write `config` to `path`, readable by its owner alone, whole or not at all."""
    import yaml  # dear to import, and most commands only read

    text = yaml.safe_dump(
        dict(config.values), sort_keys=False, default_flow_style=False
    )  # escapes keep every character
    write_whole(path, text.encode())


def _parse(raw: bytes, path: Path) -> Mapping[str, Any]:
    import yaml  # dear to import, and many commands need no file

    try:
        loader = yaml.SafeLoader(raw)
        try:
            _check_events(loader, path)
        finally:
            loader.dispose()
        values = yaml.safe_load(raw)
    except yaml.YAMLError as error:
        raise Invalid(f"is not YAML: {error}", where=str(path)) from None
    except (UnicodeError, RecursionError) as error:
        raise Invalid(f"cannot be read as YAML: {error}", where=str(path)) from None
    if values is None:
        return {}
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise Invalid("a config file holds keys and values, for example `server: 127.0.0.1:50051`", where=str(path))
    return values


def _check_events(loader: Any, path: Path) -> None:
    """Refuse aliases (a short file can grow without bound through them) and absurd depth."""
    import yaml

    depth = 0
    while loader.check_event():
        event = loader.get_event()
        if isinstance(event, yaml.AliasEvent):
            raise Invalid("anchors and aliases are not read; write the value out", where=str(path))
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise TooLarge(f"a config file is at most {MAX_DEPTH} levels deep", where=str(path))


def _placed(values: Mapping[str, Any], keys: tuple[str, ...], value: object) -> dict[str, Any]:
    inner = values.get(keys[0])
    if len(keys) == 1:
        return {**values, keys[0]: value}
    return {**values, keys[0]: _placed(inner if isinstance(inner, Mapping) else {}, keys[1:], value)}
