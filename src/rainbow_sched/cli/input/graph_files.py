"""Read graphs, states and secrets from files and options of the cluster commands."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rainbow_sched.cli.render.terminal import print_message
from rainbow_sched.client.settings import ClientSettings, read_secret
from rainbow_sched.model.errors import Invalid


def read_bytes(path: str) -> bytes:
    """Return the bytes of a file; `-` is stdin."""
    if path == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror}") from None


@contextlib.contextmanager
def graph_errors(path: str) -> Iterator[None]:
    """Add the name of the file to errors of a graph, which the server does not know."""
    try:
        yield
    except Invalid as error:
        raise Invalid(str(error), where=path) from None


def read_object(path: str) -> dict[str, Any]:
    """Return the JSON object in a file."""
    try:
        value = json.loads(read_bytes(path))
    except ValueError as error:
        raise Invalid(f"is not JSON: {error}", where=path) from None
    if not isinstance(value, dict):
        raise Invalid('must hold a JSON object, for example {"nodes_free": 20}', where=path)
    return value


def parse_value(text: str) -> object:
    """Return the JSON value of an argument, or its text if it is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def secret_from_options(secret: str | None, secret_file: str | None) -> str:
    """Return the secret from a file or, with a warning, from the command line, as the prototype's scripts pass it."""
    if secret_file:
        return read_secret(secret_file, "the secret")
    if secret:
        print_message(
            "warning: other users can read a secret on the command line; pass it in a file or the environment"
        )
    return secret or ""


def cluster_settings(
    settings: ClientSettings, name: str | None, secret_file: str | None, secret: str | None = None
) -> tuple[ClientSettings, str]:
    """Return settings with the credentials of a cluster, and its name: from the options, else from the config file."""
    secret = secret_from_options(secret, secret_file)
    cluster = name or settings.cluster
    if not cluster:
        raise Invalid("no cluster is named; give --cluster-name, or a config file with cluster: {name, secret}")
    if secret:
        origins: Mapping[str, Any] = {**settings.origins, "cluster_secret": "flag"}
        settings = replace(settings, cluster=cluster, cluster_secret=secret, origins=origins)
    return settings, cluster


def config_path_to_write(settings: ClientSettings) -> Path:
    """Return the config file to write: the one that was read, else the user's own."""
    from rainbow_sched.client.config import user_path

    return settings.config.path or user_path(os.environ)
