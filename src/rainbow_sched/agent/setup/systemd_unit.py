"""The text of a systemd --user unit for an agent. Pure, but for where the program lies."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from rainbow_sched.model.cluster import cluster_name
from rainbow_sched.model.errors import Invalid


def unit_name(cluster: str) -> str:
    """The unit's file name."""
    return f"rainbow-agent-{cluster_name(cluster)}.service"


def unit_text(cluster: str, arguments: Iterable[str], program: Iterable[str] | None = None) -> str:
    """The unit. Jobs are left alone when the agent stops: only its own process is ended."""
    command = list(program or _program())
    words = [*command, "agent", "--cluster", cluster_name(cluster), *arguments]
    return f"""[Unit]
Description=Rainbow agent of cluster {cluster}
After=network-online.target
Wants=network-online.target

[Service]
ExecStart={" ".join(map(quoted, words))}
Restart=on-failure
RestartSec=5
RestartPreventExitStatus=2 5
KillMode=process
Delegate=yes
DelegateSubgroup=agent
NoNewPrivileges=yes
UMask=0077

[Install]
WantedBy=default.target
"""


def quoted(word: str) -> str:
    """One word of ExecStart as systemd reads it."""
    if "\n" in word or "\0" in word:
        raise Invalid("an option of an agent has no line ends in it")
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'


def _program() -> list[str]:
    beside = Path(sys.executable).parent / "rainbow"
    return [str(beside)] if beside.exists() else [sys.executable, "-m", "rainbow_sched.cli.main"]
