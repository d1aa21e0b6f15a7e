"""Throwaway Slurm clusters on loopback for tests: own munge key, ports and state, no systemd, stopped by process id.

One slurmctld and one slurmd per node; a node is a name and a port, so many fit on one machine.
Gpus are null devices, which need root to make. Nothing is left behind after `stop`.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

START_SECONDS = 30.0
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "squeue", "scancel", "sinfo")
_SETTINGS = """\
ClusterName={name}
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge.sock
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/state/spool.%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
GresTypes=gpu
ReturnToService=2
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,bf_continue
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
MinJobAge=600
KillWait=2
MessageTimeout=5
SlurmdTimeout=60
PropagateResourceLimits=NONE
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """So many equal nodes. `names` as `n[1-3]`; with gpus, `gpu_type` names their kind."""

    prefix: str = "n"
    first: int = 1
    count: int = 3
    cpus: int = 4
    memory: int = 8000  # MB
    gpus: int = 0
    gpu_type: str = ""
    features: Sequence[str] = ()
    layout: str = ""  # such as "Sockets=2 CoresPerSocket=8 ThreadsPerCore=2"

    @property
    def names(self) -> list[str]:
        """Every node's name."""
        return [f"{self.prefix}{i}" for i in range(self.first, self.first + self.count)]


def missing() -> str | None:
    """What must be installed before a cluster can start, or None."""
    lacking = [program for program in _PROGRAMS if shutil.which(program, path=_PATH) is None]
    return f"{', '.join(lacking)} not installed; run tools/install-real-parts" if lacking else None


class SlurmCluster:
    """One cluster; `environment` is what its client programs need."""

    def __init__(
        self,
        name: str,
        nodes: Sequence[Nodes] = (Nodes(),),
        partitions: Mapping[str, str] | None = None,
        settings: str = "",
    ) -> None:
        """`partitions`: name to prefix of its nodes (empty: all), the first is the default one."""
        self.name = name
        self.nodes = tuple(nodes)
        self.partitions = dict(partitions or {"main": ""})
        self.folder = Path(tempfile.mkdtemp(prefix=f"rainbow-slurm-{name}-"))
        self.folder.chmod(0o755)
        self.conf = self.folder / "slurm.conf"
        self.environment = {**os.environ, "SLURM_CONF": str(self.conf), "PATH": _PATH}
        self._settings = settings
        self._port = _free_ports(1 + len(self.node_names))
        self._ports = {name: self._port + 1 + i for i, name in enumerate(self.node_names)}

    @property
    def node_names(self) -> list[str]:
        """Every node's name."""
        return [name for part in self.nodes for name in part.names]

    def start(self) -> None:
        """Start all daemons and return when every node is up; raise with the logs if they do not come up."""
        for part in ("run", "log", "state"):
            (self.folder / part).mkdir(exist_ok=True)
        self._configure()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        run = self.folder / "run"
        self._run(
            *("munged", "--force", f"--key-file={key}", f"--socket={run}/munge.sock", f"--pid-file={run}/munged.pid"),
            *(f"--log-file={self.folder}/log/munged.log", f"--seed-file={self.folder}/state/munged.seed"),
        )
        deadline = time.monotonic() + START_SECONDS
        self.start_controller()
        for name in self.node_names:
            self._start_node(name)
        self._await_up(deadline)

    def _start_node(self, name: str) -> None:
        (self.folder / "state" / f"spool.{name}").mkdir(exist_ok=True)
        self._run("slurmd", "-f", str(self.conf), "-N", name)

    def _await_up(self, deadline: float) -> None:
        while self._up() < len(self.node_names):
            if time.monotonic() > deadline:
                logs = "\n".join(path.read_text()[-2000:] for path in (self.folder / "log").iterdir())
                raise RuntimeError(f"the Slurm cluster {self.name} did not come up:\n{logs}")
            time.sleep(0.05)  # a daemon in another process is awaited; nothing tells us when

    def rebuild(self, nodes: Sequence[Nodes]) -> None:
        """Other nodes from now on: the controller is stopped, configured anew and started; jobs go on."""
        before = set(self.node_names)
        self.nodes = tuple(nodes)
        for name in before.difference(self.node_names):
            self._end(self.folder / "run" / f"slurmd.{name}.pid", "slurmd")
        self.stop_controller()
        self._ports.update({name: _free_ports(1) for name in self.node_names if name not in self._ports})
        self._configure()
        self.start_controller()
        for name in set(self.node_names) - before:
            self._start_node(name)
        self._await_up(time.monotonic() + START_SECONDS)

    def start_controller(self) -> None:
        """Start slurmctld."""
        self._run("slurmctld", "-f", str(self.conf))

    def stop_controller(self, number: int = signal.SIGTERM) -> None:
        """Stop slurmctld: with SIGTERM it saves its state, with SIGKILL it forgets the last seconds."""
        self._end(self.folder / "run" / "slurmctld.pid", "slurmctld", number)

    def call(self, *command: str) -> str:
        """Run a client program and return what it printed."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=30, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def stop(self) -> None:
        """End every job and daemon, and remove all files."""
        with contextlib.suppress(Exception):  # the controller may be down: then only daemons are left to stop
            user = f"--user={getpass.getuser()}"
            self.call("scancel", "--state=PENDING", user)
            self.call("scancel", "--signal=KILL", "--full", user)
        run = self.folder / "run"
        for path in (run / "slurmctld.pid", *run.glob("slurmd.*.pid"), run / "munged.pid"):
            self._end(path, path.name.partition(".")[0])
        shutil.rmtree(self.folder, ignore_errors=True)

    def _up(self) -> int:
        with contextlib.suppress(RuntimeError, subprocess.TimeoutExpired):
            names = self.call("sinfo", "-h", "-a", "-N", "-t", "idle,mixed,allocated", "-o", "%N")
            return len(set(names.split()))
        return 0

    def _configure(self) -> None:
        text = _SETTINGS.format(name=self.name, port=self._port, user=getpass.getuser(), folder=self.folder)
        gres = ["AutoDetect=off"]
        for part in self.nodes:
            kind = f"gpu:{part.gpu_type}" if part.gpu_type else "gpu"
            extra = f" {part.layout}" if part.layout else f" CPUs={part.cpus}"
            extra += f" Gres={kind}:{part.gpus}" if part.gpus else ""
            extra += f" Feature={','.join(part.features)}" if part.features else ""
            for name in part.names:
                text += f"NodeName={name} NodeAddr=127.0.0.1 Port={self._ports[name]} RealMemory={part.memory}"
                text += f"{extra} State=UNKNOWN\n"
            if part.gpus:
                devices = self._devices(part)
                named = f" Type={part.gpu_type}" if part.gpu_type else ""
                gres.append(f"NodeName={','.join(part.names)} Name=gpu{named} File={devices}")
        for number, (partition, prefix) in enumerate(self.partitions.items()):
            members = ",".join(name for name in self.node_names if name.startswith(prefix))
            default = "YES" if number == 0 else "NO"
            text += f"PartitionName={partition} Nodes={members} Default={default} DefaultTime=10 State=UP\n"
        self.conf.write_text(text + self._settings)
        (self.folder / "gres.conf").write_text("\n".join(gres) + "\n")
        (self.folder / "cgroup.conf").write_text("")
        version = self._run("slurmctld", "-V").split()[-1]
        if int(version.partition(".")[0]) > 22:
            (self.folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n")

    def _devices(self, part: Nodes) -> str:
        for i in range(part.gpus):
            os.mknod(self.folder / "state" / f"{part.prefix}gpu{i}", 0o20666, os.makedev(1, 3))
        return f"{self.folder}/state/{part.prefix}gpu[0-{part.gpus - 1}]"

    def _run(self, *command: str) -> str:
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=30, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    @staticmethod
    def _end(pid_file: Path, program: str, number: int = signal.SIGTERM) -> None:
        try:
            pid = int(pid_file.read_text())
        except (OSError, ValueError):
            return
        deadline = time.monotonic() + 3.0
        with contextlib.suppress(ProcessLookupError):
            if _alive(pid, program):
                os.kill(pid, number)
            while _alive(pid, program):
                if time.monotonic() > deadline:
                    os.kill(pid, signal.SIGKILL)
                time.sleep(0.01)  # not our child: it cannot be waited for
        pid_file.unlink(missing_ok=True)


def _alive(pid: int, program: str) -> bool:
    """True if the process is that program and has not ended, whether or not its parent has taken note."""
    try:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
    except OSError:
        return False
    return name == program and rest.split()[0] != "Z"


def _free_ports(many: int) -> int:
    """The first of `many` neighbouring ports that nobody listens on."""
    for _ in range(100):
        first = random.randrange(20_000, 30_000)
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + many):
                    probe = stack.enter_context(socket.socket())
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
    raise RuntimeError(f"no {many} neighbouring free ports were found")


def running(cluster: SlurmCluster) -> Iterator[SlurmCluster]:
    """For fixtures: the cluster while it runs; skips, loudly, where Slurm is not installed."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
