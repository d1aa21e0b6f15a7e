"""How an agent is told to run, its credential, and the checks that come before it starts."""

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
    """Everything `rainbow agent` can be told."""

    cluster: str
    state_dir: Path
    backend: str = "local"
    backend_options: Mapping[str, str] = field(default_factory=dict)
    secret_file: str = ""
    graph: str = ""  # a file; empty: as registered from here, else what is found
    register: str = ""  # a graph file, or "auto"
    max_jobs: int = 64
    accept: str = ""
    order: str = ""
    allow: tuple[str, ...] = ()
    allowed_signers: str = ""  # a file of public keys; empty: jobs need no signature
    require_signature: bool = False
    renew_every: float = 30 * 86_400.0  # seconds after which its secret is replaced; 0: never
    prices: Prices = field(default_factory=Prices)
    rediscover: float = 600.0  # seconds between two looks at what the cluster is; 0: none
    once: bool = False
    run_as_root: bool = False

    def __post_init__(self) -> None:
        cluster_name(self.cluster)
        if self.max_jobs < 1:
            raise Invalid(f"--max-jobs is a number from 1 up, not {self.max_jobs}")
        if self.rediscover < 0:
            raise Invalid(f"--rediscover is a number of seconds, or 0 for never, not {self.rediscover:g}")


def refuse_root(options: AgentOptions, uid: int) -> None:
    """Jobs run as the user who started the agent: that is not root unless somebody says so."""
    if uid == 0 and not options.run_as_root:
        raise Denied("an agent runs other people's jobs as its own user; do not start it as root, or say --run-as-root")


def credential(options: AgentOptions, settings: ClientSettings, environment: Mapping[str, str]) -> str | None:
    """The cluster's secret: file, environment, what an earlier registration left, config; None if there is none."""
    if options.secret_file:
        check_private(Path(options.secret_file))
        return read_secret(options.secret_file, "the cluster's secret")
    if environment.get(SECRET_ENV):
        return environment[SECRET_ENV]
    kept = options.state_dir / SECRET_FILE
    if kept.exists():
        check_private(kept)
        return read_secret(str(kept), "the cluster's secret")
    own = settings.cluster_secret and (
        settings.cluster in ("", options.cluster) or settings.origins.get("cluster_secret") != "config"
    )
    return settings.cluster_secret if own else None


def need_credential(found: str | None, options: AgentOptions) -> str:
    """The secret, or an error that says where one comes from."""
    if found:
        return found
    raise Unauthenticated(
        f"there is no credential for cluster {options.cluster}: give --secret-file or {SECRET_ENV}, or register it "
        "with --register auto and RAINBOW_REGISTRATION_SECRET"
    )


def opened(make: Callable[[Path], T], directory: Path) -> T:
    """Something in the state directory; what is wrong with that directory is said in words."""
    try:
        return make(directory)
    except OSError as problem:
        what = f"cannot keep the agent's state in {directory}: {problem.strerror}"
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Unavailable(f"{what}; make room there, nothing is taken without a journal") from None
        raise Invalid(f"{what}; give a directory that you may write to with --state-dir") from None


def keep(directory: Path, name: str, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    write_whole(directory / name, f"{text}\n".encode())
