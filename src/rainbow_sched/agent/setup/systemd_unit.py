"""The systemd --user unit of an agent."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from rainbow_sched.model.cluster import cluster_name
from rainbow_sched.model.errors import Invalid


def unit_name(cluster: str) -> str:
    return f"rainbow-agent-{cluster_name(cluster)}.service"


def unit_text(cluster: str, arguments: Iterable[str], program: Iterable[str] | None = None) -> str:
    """Return the unit file. Stopping the unit ends the agent only; jobs continue."""
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
    """Return a word of ExecStart with systemd's quoting."""
    if "\n" in word or "\0" in word:
        raise Invalid("an option of an agent must not contain a line break or zero byte")
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'


def _program() -> list[str]:
    beside = Path(sys.executable).parent / "rainbow"
    return [str(beside)] if beside.exists() else [sys.executable, "-m", "rainbow_sched.cli.main"]
