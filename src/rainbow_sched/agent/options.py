"""Options of an agent, its credential, and checks before it starts."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from rainbow_sched.agent.backends.base import Prices
from rainbow_sched.client.private_files import check_private, write_whole
from rainbow_sched.client.settings import ClientSettings, read_secret
from rainbow_sched.model.cluster import cluster_name
from rainbow_sched.model.errors import Denied, Invalid, Unauthenticated, Unavailable

SECRET_ENV = "RAINBOW_AGENT_SECRET"
SECRET_FILE = "secret"
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """All options of `rainbow agent`."""

    cluster: str
    state_dir: Path
    backend: str = "local"
    backend_options: Mapping[str, str] = field(default_factory=dict)
    secret_file: str = ""
    graph: str = ""  # a file; empty: the registered graph, or discovery
    register: str = ""  # a graph file, or "auto"
    max_jobs: int = 64  # accepted jobs that have not ended
    accept: str = ""
    order: str = ""
    allow: tuple[str, ...] = ()
    allowed_signers: str = ""  # a file of public keys; empty: jobs need no signature
    require_signature: bool = False
    renew_every: float = 30 * 86_400.0  # seconds after which the secret is replaced; 0: never
    prices: Prices = field(default_factory=Prices)
    rediscover: float = 600.0  # seconds between checks of the cluster; 0: none
    once: bool = False
    run_as_root: bool = False

    def __post_init__(self) -> None:
        cluster_name(self.cluster)
        if self.max_jobs < 1:
            raise Invalid(f"--max-jobs must be at least 1, not {self.max_jobs}")
        if self.rediscover < 0:
            raise Invalid(f"--rediscover must be a number of seconds, or 0 for never, not {self.rediscover:g}")


def refuse_root(options: AgentOptions, uid: int) -> None:
    """Refuse to run as root without --run-as-root."""
    if uid == 0 and not options.run_as_root:
        raise Denied("the agent runs all jobs as its own user; do not start it as root, or give --run-as-root")


def credential(options: AgentOptions, settings: ClientSettings, environment: Mapping[str, str]) -> str | None:
    """Return the cluster's secret from option, environment, state directory or config; None if there is none."""
    if options.secret_file:
        check_private(Path(options.secret_file))
        return read_secret(options.secret_file, "the cluster's secret")
    if environment.get(SECRET_ENV):
        return environment[SECRET_ENV]
    path = options.state_dir / SECRET_FILE
    if path.exists():
        check_private(path)
        return read_secret(str(path), "the cluster's secret")
    own = settings.cluster_secret and (
        settings.cluster in ("", options.cluster) or settings.origins.get("cluster_secret") != "config"
    )
    return settings.cluster_secret if own else None


def need_credential(found: str | None, options: AgentOptions) -> str:
    """Return the secret; raise Unauthenticated with the possible sources."""
    if found:
        return found
    raise Unauthenticated(
        f"no credential for cluster {options.cluster}: give --secret-file or {SECRET_ENV}, or register the cluster "
        "with --register auto and RAINBOW_REGISTRATION_SECRET"
    )


def opened(make: Callable[[Path], T], directory: Path) -> T:
    """Open something in the state directory; explain errors of the file system."""
    try:
        return make(directory)
    except OSError as problem:
        what = f"cannot use the state directory {directory}: {problem.strerror}"
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Unavailable(f"{what}; free some space: without a journal no jobs are accepted") from None
        raise Invalid(f"{what}; give a writable directory with --state-dir") from None


def write_private(directory: Path, name: str, text: str) -> None:
    """Write a private file atomically."""
    write_whole(directory / name, f"{text}\n".encode())
