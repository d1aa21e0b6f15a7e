"""Graphs, states and secrets from files and flags, as the cluster commands take them."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rainbow_sched.cli.shell.messages import say
from rainbow_sched.client.settings import read_secret
from rainbow_sched.model.errors import Invalid

if TYPE_CHECKING:
    from rainbow_sched.client.settings import ClientSettings


def read_bytes(path: str) -> bytes:
    """A file's bytes; `-` is stdin."""
    if path == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror}") from None


@contextlib.contextmanager
def graph_errors(path: str) -> Iterator[None]:
    """Say in which file a graph is wrong: the server, which reads it, does not know."""
    try:
        yield
    except Invalid as error:
        raise Invalid(str(error), where=path) from None


def read_object(path: str) -> dict[str, Any]:
    """A file that holds one JSON object."""
    try:
        found = json.loads(read_bytes(path))
    except ValueError as error:
        raise Invalid(f"is not JSON: {error}", where=path) from None
    if not isinstance(found, dict):
        raise Invalid('must hold a JSON object, for example {"nodes_free": 20}', where=path)
    return found


def value_of(text: str) -> object:
    """A value from a command line: JSON where it is JSON, else text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def given_secret(secret: str | None, secret_file: str | None) -> str:
    """A secret from a file or, for the prototype's scripts, from a flag that everybody on the machine can read."""
    if secret_file:
        return read_secret(secret_file, "the secret")
    if secret:
        say("warning: others on this machine can read a secret on the command line; give it by file or environment")
    return secret or ""


def with_cluster(settings: ClientSettings, name: str | None, secret: str) -> tuple[ClientSettings, str]:
    """Settings that speak for a cluster, and its name: the flag's, else the config's."""
    chosen = name or settings.cluster
    if not chosen:
        raise Invalid("which cluster? give --cluster-name, or a config file with cluster: {name, secret}")
    if secret:
        origins: Mapping[str, Any] = {**settings.origins, "cluster_secret": "flag"}
        settings = replace(settings, cluster=chosen, cluster_secret=secret, origins=origins)
    return settings, chosen


def config_target(settings: ClientSettings) -> Path:
    """The file that `--save` writes: the one that was read, else the user's own."""
    from rainbow_sched.client.config import user_path

    return settings.config.path or user_path(os.environ)
