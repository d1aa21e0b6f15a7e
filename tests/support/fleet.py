"""A fleet of real processes for end-to-end tests: a server, agents of local clusters, jobs that count themselves.

Every job of a `Tally` writes a line to a file when it really starts, so that a job that ran
twice, or never, is seen from outside, whatever the server and the agents believe.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rainbow_sched.client import Client
from rainbow_sched.client.connection import Backoff, Timeouts
from rainbow_sched.client.jobs import EventInfo, JobFilter, JobInfo
from rainbow_sched.client.submission import JobSubmission, command
from rainbow_sched.model.errors import RainbowError
from rainbow_sched.model.job import Terms
from tests.support.calls import Calls
from tests.support.prefork import a_forked_server
from tests.support.server_process import RAINBOW, ServerProcess, a_server_process
from tests.support.service import a_graph

# A fault of some seconds is waited out, not reported.
PATIENT = Timeouts(call=90.0, unreachable=60.0, stream=90.0, backoff=Backoff(cap=0.5))
_COUNTED = """
echo "$RAINBOW_JOB_ID" >> "$1"
echo "out $RAINBOW_JOB_ID"
if [ -n "$4" ]; then while [ ! -e "$4" ] && [ -e "$1" ]; do sleep 0.02; done; fi
sleep "$2"
echo "err $RAINBOW_JOB_ID" >&2
echo "$RAINBOW_JOB_ID" >> "$1.ends"
exit "$3"
"""


@dataclass
class Agent:
    """One `rainbow agent` process, which can be killed, paused and started again in the same state directory."""

    cluster: str
    folder: Path
    arguments: list[str]
    environment: dict[str, str]
    program: Sequence[str] = tuple(RAINBOW)
    process: subprocess.Popen[bytes] | None = None
    kills: int = 0

    @property
    def log(self) -> str:
        """What it has written so far, over all its starts."""
        return (self.folder / f"{self.cluster}.log").read_text(errors="replace")

    def start(self) -> None:
        """Start it; it takes its jobs up again by itself."""
        with (self.folder / f"{self.cluster}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self.program, "agent", *self.arguments],
                env=self.environment,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )

    def send(self, number: signal.Signals) -> None:
        """Send a signal to this process and no other."""
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it as a power cut would; what it started goes on."""
        self.send(signal.SIGKILL)
        assert self.process is not None
        self.process.wait()
        self.kills += 1

    def lives(self, seconds: float) -> None:
        """Let so much time pass in its life; fail if it ends by itself."""
        assert self.process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self.process.wait(seconds)
            raise AssertionError(f"the agent of {self.cluster} ended with {code}:\n{self.log[-4000:]}")

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stopped in the middle of whatever it does, until the block ends."""
        self.send(signal.SIGSTOP)
        try:
            yield
        finally:
            self.send(signal.SIGCONT)

    def ask_to_stop(self) -> None:
        """As an operator would."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()

    def stop(self) -> int:
        """End it as an operator would; its exit code."""
        if self.process is None:
            return 0
        self.ask_to_stop()
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


@dataclass
class Tally:
    """What really happened: one line for each start of a job, one for each end that it reached by itself."""

    folder: Path

    @property
    def path(self) -> Path:
        """The file of starts."""
        return self.folder / "starts"

    def argv(self, *, seconds: float = 0.1, code: int = 0, gate: Path | None = None) -> list[str]:
        """A command that counts itself, waits for `gate` to exist if there is one, works a while, and exits so."""
        return ["/bin/sh", "-c", _COUNTED, "job", str(self.path), f"{seconds:g}", str(code), str(gate or "")]

    def starts(self) -> Counter[int]:
        """How often each job really started."""
        return _counted(self.path)

    def ends(self) -> Counter[int]:
        """How often each job came to its own end."""
        return _counted(self.folder / "starts.ends")


def _counted(path: Path) -> Counter[int]:
    return Counter(int(line) for line in path.read_text().split()) if path.exists() else Counter()


@dataclass(frozen=True)
class Counts:
    """The verdict over a set of jobs that were acknowledged."""

    acknowledged: int
    ended: int
    lost: int
    doubled: int
    wrong: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.acknowledged} acknowledged, {self.ended} ended, {self.lost} lost, {self.doubled} doubled, "
            f"{len(self.wrong)} with a wrong result"
        )

    def check(self) -> None:
        """Nothing lost, nothing doubled, nothing wrong."""
        assert (self.lost, self.doubled, self.wrong, self.ended) == (0, 0, (), self.acknowledged), self


@dataclass
class Fleet:
    """One server, its agents, and a client that is patient with faults."""

    server: ServerProcess
    tally: Tally
    agents: dict[str, Agent] = field(default_factory=dict)
    client: Client = field(init=False)

    def __post_init__(self) -> None:
        self.client = self.a_client()

    def a_client(self, server: str = "", timeouts: Timeouts = PATIENT) -> Client:
        """Another client of the administrator, by way of `server` if that is not the server itself."""
        return Client(server or self.server.address, token=self.server.admin_token, timeouts=timeouts)

    def add(
        self,
        cluster: str,
        *arguments: str,
        server: str = "",
        started: bool = True,
        nodes: int = 4,
        cores: int = 4,
        memory: int = 0,
    ) -> Agent:
        """Register a cluster and start its agent."""
        folder, graph = self.server.folder, a_graph(nodes=nodes, cores=cores, memory=memory)
        with self.server.channel() as channel:
            made = Calls(channel, self.server.admin_token).register(cluster, graph)
        (folder / f"{cluster}.json").write_bytes(graph)
        secret = folder / f"{cluster}.secret"
        secret.touch(mode=0o600)
        secret.write_text(made.secret + "\n")
        given = ["--cluster", cluster, "--graph", str(folder / f"{cluster}.json"), "--secret-file", str(secret)]
        given += ["--state-dir", str(folder / f"{cluster}.state"), "--server", server or self.server.address]
        given += ["--run-as-root"] if os.geteuid() == 0 else []
        agent = Agent(cluster, folder, [*given, *arguments], self.server.environment())
        self.agents[cluster] = agent
        if started:
            agent.start()
        return agent

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """A `rainbow` command that stays, as a user would start it."""
        ours = {"RAINBOW_SERVER": self.server.address, "RAINBOW_TOKEN": self.server.admin_token}
        return subprocess.Popen(
            [*RAINBOW, *arguments],
            env=self.server.environment() | ours,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )

    def server_lives(self, seconds: float) -> None:
        """Let so much time pass in the server's life; fail if it ends by itself."""
        self.server.lives(seconds)

    # --- submitting ---

    def submission(
        self,
        cluster: str = "",
        *,
        seconds: float = 0.1,
        code: int = 0,
        gate: Path | None = None,
        nodes: int | None = None,
        **more: Any,
    ) -> JobSubmission:
        """A job that counts itself, on `cluster` if one is named; `more` are fields of JobSubmission or of Terms."""
        text = command(self.tally.argv(seconds=seconds, code=code, gate=gate), nodes=nodes, tasks=nodes or 1)
        own = {key: more.pop(key) for key in ("array", "dependencies", "client_token", "name") if key in more}
        terms = Terms(only_clusters=more.pop("only_clusters", (cluster,) if cluster else ()), **more)
        return JobSubmission(text=text, dialect="flux", terms=terms, **{"name": "counted", **own})

    def submit(self, cluster: str = "", **asked: Any) -> int:
        """Submit one such job; its id."""
        return self.client.submit_one(self.submission(cluster, **asked)).id

    def submit_many(self, count: int, *, seconds: Callable[[int], float] = lambda i: 0.1) -> dict[int, int]:
        """Submit `count` jobs in one call, with exit codes 0, 1, 2 in turn; the exit code by id."""
        asked = [self.submission(seconds=seconds(i), code=i % 3) for i in range(count)]
        answers = self.client.submit_batch(asked)
        return {answer.id: i % 3 for i, answer in enumerate(answers)}

    # --- waiting: on the stream of events, never by looking again and again ---

    def until(self, ids: int | Iterable[int], reached: Callable[[EventInfo], bool]) -> list[EventInfo]:
        """Read the events of jobs until one of each job meets the condition; all that were read."""
        left = {ids} if isinstance(ids, int) else set(ids)
        seen = []
        for event in self.client.watch(JobFilter(ids=sorted(left)), after=0):
            seen.append(event)
            if reached(event):
                left.discard(event.job)
            if not left:
                break
        return seen

    def until_running(self, *ids: int) -> None:
        """Return when the server has been told that these jobs run, or of short ones that they have ended."""
        self.until(ids, lambda event: event.detail.get("attempt") == "running" or event.last)

    def until_begun(self, *ids: int) -> None:
        """Return when the server has the first output of these jobs: now they have counted themselves."""
        for id in ids:
            next(self.client.logs(id, follow=True))

    def ended(self, *ids: int) -> list[JobInfo]:
        """Return these jobs when they have ended."""
        return list(self.client.wait_all(ids))

    def output(self, id: int, stream: str = "stdout") -> bytes:
        """What a job wrote, as the server has it."""
        return b"".join(chunk.data for chunk in self.client.logs(id, stream=stream))

    def counts(self, codes: dict[int, int]) -> Counts:
        """Wait until all jobs have ended, and hold what the server says against what really happened."""
        jobs = self.ended(*codes)
        starts = self.tally.starts()
        wrong = [text for job in jobs for text in self._wrong(job, codes[job.id])]
        return Counts(
            acknowledged=len(codes),
            ended=sum(job.ended for job in jobs),
            lost=sum(starts[id] == 0 for id in codes),
            doubled=sum(starts[id] > 1 for id in codes),
            wrong=tuple(wrong),
        )

    def _wrong(self, job: JobInfo, code: int) -> Iterator[str]:
        state = "failed" if code else "succeeded"
        if (job.state, job.exit_code) != (state, code):
            yield f"job {job.id}: {job.state} {job.exit_code} {job.reason!r}, not {state} {code}"
            return
        for stream, word in (("stdout", "out"), ("stderr", "err")):
            if (text := self.output(job.id, stream)) != f"{word} {job.id}\n".encode():
                yield f"job {job.id}: {stream} is {text!r}"

    def stop(self) -> None:
        """End the agents; the server ends by itself."""
        for agent in self.agents.values():
            agent.ask_to_stop()
        for agent in self.agents.values():
            agent.stop()
        self.client.close()


class Submitters:
    """Clients that submit one job after another; each job's token makes trying again safe."""

    def __init__(self, fleet: Fleet, count: int) -> None:
        self.fleet = fleet
        self.codes: dict[int, int] = {}
        self.refused: list[str] = []
        self._enough = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(count)]

    def __enter__(self) -> Submitters:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        client = self.fleet.a_client()
        try:
            for i in range(100_000):
                if self._enough.is_set():
                    return
                code = i % 3
                asked = self.fleet.submission(seconds=0.02, code=code, client_token=f"{number}-{i}")
                id = client.submit_one(asked).id
                assert client.submit_one(asked).id == id  # the same token is the same job
                self.codes[id] = code
                self._enough.wait(0.15)  # jobs are real processes on this machine: no flood
        except RainbowError as error:
            self.refused.append(str(error))
        finally:
            client.close()


@contextlib.contextmanager
def a_fleet(
    folder: Path,
    *,
    db: str = "",
    arguments: Sequence[str] = (),
    config: str = "",
    program: Sequence[str] = RAINBOW,
) -> Iterator[Fleet]:
    """A running server without clusters; `config` is the text of its configuration file."""
    folder.mkdir(parents=True, exist_ok=True)
    given = list(arguments)
    if config:
        (folder / "server.yaml").write_text(config)
        given += ["--config", str(folder / "server.yaml")]
    server = a_server_process(folder, db=db, arguments=tuple(given), program=tuple(program))
    with server as running, _fleet(running) as fleet:
        yield fleet


@contextlib.contextmanager
def a_quick_fleet(folder: Path) -> Iterator[Fleet]:
    """The same with a server that starts in a moment, to be killed often."""
    with a_forked_server(folder) as server, _fleet(server) as fleet:
        yield fleet


@contextlib.contextmanager
def _fleet(server: ServerProcess) -> Iterator[Fleet]:
    fleet = Fleet(server, Tally(server.folder))
    try:
        yield fleet
    finally:
        fleet.stop()
