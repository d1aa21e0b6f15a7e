"""A small world around the real reactor: a server, a manager and a disk, each simple enough to be obviously right.

Every choice (what happens next, what is lost, who crashes) comes from one stream of
numbers, so that a failing history can be shrunk and replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from rainbow_sched.agent.core import events as e
from rainbow_sched.agent.core.journal_records import restored
from rainbow_sched.agent.core.reactor import react
from rainbow_sched.agent.core.state import AgentLimits, AgentState
from rainbow_sched.agent.core.values import Absent, JobFound, Phase, Result, Unknown, Update
from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.protocol.messages import (
    AttemptRef,
    Offer,
    OutputPiece,
    Report,
    ServerCommand,
    SyncAnswer,
    SyncMessage,
)

OUTPUT = b"0123456789" * 3


@dataclass
class Server:
    """Knows each attempt's state, stores the last answer, confirms what is accepted, keeps reports and output."""

    total: int
    attempts: dict[AttemptRef, str] = field(default_factory=dict)  # offered, confirmed, ended, returned
    results: dict[AttemptRef, Report] = field(default_factory=dict)
    returned: dict[AttemptRef, str] = field(default_factory=dict)
    seen: set[AttemptRef] = field(default_factory=set)  # ends that were told once: only a repetition is acknowledged
    output: dict[AttemptRef, bytes] = field(default_factory=dict)
    commands: dict[int, ServerCommand] = field(default_factory=dict)
    epoch: str = ""
    last: SyncAnswer | None = None

    def cancel(self, ref: AttemptRef) -> None:
        if self.attempts.get(ref) == "confirmed":
            number = len(self.commands) + 1
            self.commands[number] = ServerCommand(number, "cancel", ref)

    def lapse(self) -> None:
        """The leases of offers that nobody accepted run out."""
        for ref, state in self.attempts.items():
            if state == "offered":
                self.attempts[ref], self.returned[ref] = "returned", "lapsed"

    def sync(self, epoch: str, message: SyncMessage) -> SyncAnswer:
        if epoch != self.epoch:
            self.epoch = epoch
            expected = tuple(ref for ref, state in self.attempts.items() if state in ("offered", "confirmed"))
            self.last = SyncAnswer(ack=message.seq, resync=True, expected=expected)
            return self.last
        if self.last is not None and message.seq == self.last.ack:
            return self.last
        self.last = self._effect(message)
        return self.last

    def _effect(self, message: SyncMessage) -> SyncAnswer:
        acked, output = [], []
        for ref in message.accepts:
            if self.attempts.get(ref) in ("offered", "confirmed"):
                self.attempts[ref] = "confirmed"
        for ref, reason in message.rejects:
            if self.attempts.get(ref) in ("offered", "confirmed"):
                self.attempts[ref], self.returned[ref] = "returned", reason
        for chunk in message.output:
            stored = self.output.setdefault(chunk.ref, b"")
            if chunk.offset <= len(stored):
                self.output[chunk.ref] = stored[: chunk.offset] + chunk.data
            output.append((chunk.ref, chunk.stream, len(self.output[chunk.ref])))
        for report in message.reports:
            if report.ends:
                if report.ref in self.seen:
                    acked.append(report.ref)
                self.seen.add(report.ref)
                if self.attempts.get(report.ref) == "confirmed":
                    self.attempts[report.ref], self.results[report.ref] = "ended", report
        for number in message.acks:
            self.commands.pop(number, None)
        ended = {report.ref for report in message.reports} | {ref for ref, _ in message.rejects}
        kills = tuple(
            ServerCommand(0, "kill", ref)
            for ref, _ in message.held
            if self.attempts[ref] in ("ended", "returned") and ref not in ended
        )
        offers = []
        while len(self.attempts) < self.total and len(offers) < message.want:
            ref = AttemptRef(len(self.attempts) + 1, 1, f"t{len(self.attempts)}")
            self.attempts[ref] = "offered"
            offers.append(Offer(ref=ref, spec="{}"))
        return SyncAnswer(
            ack=message.seq,
            confirms=tuple(ref for ref, state in self.attempts.items() if state == "confirmed"),  # again and again
            offers=tuple(offers),
            commands=(*self.commands.values(), *kills),
            acked=tuple(acked),
            output_acks=tuple(output),
            heartbeat=10.0,
        )


@dataclass
class Manager:
    """Runs what it is given, once per call: it does not protect anybody from submitting twice."""

    launches: dict[str, int] = field(default_factory=dict)
    jobs: dict[str, Update] = field(default_factory=dict)

    def submit(self, tag: str) -> str:
        self.launches[tag] = self.launches.get(tag, 0) + 1
        self.jobs[tag] = Update(tag=tag, phase=Phase.RUNNING, native=f"n-{tag}", started_at=1.0, sizes=(10, 0))
        return f"n-{tag}"

    def end(self, tag: str, state: AttemptState) -> None:
        result = Result(state=state, exit_code=0 if state is AttemptState.SUCCEEDED else 143)
        self.jobs[tag] = Update(tag=tag, phase=Phase.ENDED, native=f"n-{tag}", result=result, sizes=(len(OUTPUT), 0))

    def running(self) -> list[str]:
        return [tag for tag, job in self.jobs.items() if job.phase is Phase.RUNNING]

    def lookup(self, tag: str) -> JobFound | Absent:
        return JobFound(self.jobs[tag]) if tag in self.jobs else Absent()


class World:
    """Runs one agent, crash after crash, against the server and the manager."""

    def __init__(self, choices: list[int], jobs: int = 3) -> None:
        self.choices: Iterator[int] = iter(choices)
        self.over = False  # the stream is used up
        self.server, self.manager = Server(jobs), Manager()
        self.disk: list[dict[str, object]] = []
        self.now = 0.0
        self.starts = 0
        self.told: dict[AttemptRef, str] = {}  # the end that was first sent for each attempt
        self.forgetful = False
        self.calm = False
        self.start()

    def choose(self, n: int) -> int:
        choice = next(self.choices, None)
        if choice is None:
            self.over, choice = True, 0
        return choice % n

    def start(self) -> None:
        """A process begins: only the disk is left of the one before."""
        self.starts += 1
        self.epoch = f"epoch{self.starts}"
        held, past = restored(self.disk)
        self.state = AgentState(limits=AgentLimits(max_jobs=4), fresh=self.starts == 1, attempts=held, past=past)
        self.todo: list[e.Command] = []
        self.flights: list[SyncMessage] = []
        self.answers: list[SyncAnswer] = []
        self.event(e.Started())

    def event(self, event: e.AgentEvent) -> None:
        self.state, commands = react(self.state, event, self.now)
        for command in commands:
            if isinstance(command, e.SendSync):
                self.flights.append(command.message)
                self.check_message(command.message)
            else:
                self.todo.append(command)

    # --- one step ---

    def step(self) -> None:
        """One thing happens, chosen by the stream."""
        steps: list[Callable[[], None]] = [self.work, self.work, self.deliver, self.deliver, self.answer, self.answer]
        steps += [self.poll, self.end_one, self.tick, self.lose, self.cancel_one, self.lapse]
        if not self.calm:
            steps += [self.crash, self.forget_one]
        steps[self.choose(len(steps))]()
        self.check()

    def work(self) -> None:
        """The loop does one of its commands; the journal writes in order, the rest in any."""
        if not self.todo:
            return
        write = next((i for i, command in enumerate(self.todo) if isinstance(command, e.WriteJournal)), None)
        at = self.choose(len(self.todo))
        if isinstance(self.todo[at], e.WriteJournal) and write is not None:
            at = write
        self.do(self.todo.pop(at))

    def do(self, command: e.Command) -> None:
        match command:
            case e.WriteJournal(ref, kind, record):
                self.disk.append(record)
                self.event(e.RecordStored(ref, kind))
            case e.CheckOffer(offer):
                self.event(e.OfferChecked(offer, "not here" if offer.ref.job % 5 == 4 else None))
            case e.Submit(offer):
                self.submit(offer.ref)
            case e.Lookup(ref):
                unknown = not self.calm and self.choose(3) == 0
                self.event(e.LookedUp(ref, Unknown("busy") if unknown else self.manager.lookup(ref.tag)))
            case e.Cancel(ref):
                if ref.tag in self.manager.running():
                    self.manager.end(ref.tag, AttemptState.CANCELLED)
            case e.ReadOutput(ref, stream, offset, limit):
                if not self.calm and self.choose(4) == 0:
                    self.event(e.OutputUnread(ref, stream))
                    return
                size = self.manager.jobs[ref.tag].sizes[0] if ref.tag in self.manager.jobs else 0
                self.event(e.OutputRead(OutputPiece(ref, stream, offset, OUTPUT[offset : min(size, offset + limit)])))
            case e.Forget(ref):
                self.manager.jobs.pop(ref.tag, None)

    def submit(self, ref: AttemptRef) -> None:
        how = 0 if self.calm else self.choose(4)
        if how != 1:
            assert self.server.attempts[ref] != "offered", "submitted before the server confirmed"
            self.manager.submit(ref.tag)
        if how in (1, 2):
            self.event(e.SubmitUnclear(ref, "no answer"))
        else:
            self.event(e.SubmitAnswered(ref, f"n-{ref.tag}"))

    def deliver(self) -> None:
        """A message reaches the server, perhaps late, perhaps twice."""
        if self.flights:
            at = self.choose(len(self.flights))
            message = self.flights[at] if not self.calm and self.choose(4) == 0 else self.flights.pop(at)
            self.answers.append(self.server.sync(self.epoch, message))

    def answer(self) -> None:
        if self.answers:
            self.event(e.SyncAnswered(self.answers.pop(self.choose(len(self.answers)))))

    def lose(self) -> None:
        """A message or its answer is lost, or the agent only believes so."""
        if self.flights and self.choose(2):
            self.flights.pop(self.choose(len(self.flights)))
        elif self.answers:
            self.answers.pop(self.choose(len(self.answers)))
        if self.state.listening is not None and self.choose(2):
            self.event(e.SyncFailed(self.state.listening, 1.0))
        elif self.state.in_flight is not None:
            self.event(e.SyncFailed(self.state.in_flight.seq, 1.0))

    def poll(self) -> None:
        self.event(e.BackendUpdated(tuple(self.manager.jobs.values())))

    def end_one(self) -> None:
        running = self.manager.running()
        if running:
            self.manager.end(running[self.choose(len(running))], AttemptState.SUCCEEDED)

    def forget_one(self) -> None:
        """Managers forget what has ended."""
        ended = [tag for tag, job in self.manager.jobs.items() if job.phase is Phase.ENDED]
        if ended:
            self.forgetful = True
            del self.manager.jobs[ended[self.choose(len(ended))]]

    def tick(self) -> None:
        self.now += 1.0 + self.choose(8)
        self.event(e.Tick())

    def lapse(self) -> None:
        if self.choose(10) == 0:
            self.server.lapse()

    def cancel_one(self) -> None:
        if self.server.attempts and self.choose(6) == 0:
            refs = list(self.server.attempts)
            self.server.cancel(refs[self.choose(len(refs))])

    def crash(self) -> None:
        """The process dies; a write that was on its way may have reached the disk or not."""
        if self.choose(8) == 0:
            writes = [command for command in self.todo if isinstance(command, e.WriteJournal)]
            self.disk.extend(write.record for write in writes[: self.choose(len(writes) + 1)])
            self.start()

    # --- what must hold ---

    def check_message(self, message: SyncMessage) -> None:
        stored = {(record["job"], record["kind"]) for record in self.disk}
        for ref in message.accepts:
            assert (ref.job, "offer") in stored, "accepted before it was written down"
        for report in message.reports:
            if report.ends:
                first = self.told.setdefault(report.ref, report.state)
                assert first == report.state, f"{report.ref.tag} was {first}, and is now {report.state}"

    def check(self) -> None:
        for tag, launched in self.manager.launches.items():
            assert launched == 1, f"{tag} was launched {launched} times"
        for ref, report in self.server.results.items():
            if report.state == "succeeded":
                assert self.manager.launches.get(ref.tag) == 1
            elif report.failure == "outcome-unknown":
                assert ref.tag not in self.manager.running(), "unknown is not dead"

    def settle(self, steps: int = 400) -> None:
        """No more faults: everything that can be done is done, again and again."""
        self.calm = True
        for number in range(steps):
            if number == 50:
                self.server.lapse()
            while self.todo:
                self.do(self.todo.pop(0))
            for tag in self.manager.running():
                self.manager.end(tag, AttemptState.SUCCEEDED)
            self.poll()
            self.answers.clear()
            if self.state.listening is not None:
                self.event(e.SyncFailed(self.state.listening, 1.0))
            if self.state.in_flight is not None:
                self.event(e.SyncAnswered(self.server.sync(self.epoch, self.state.in_flight)))
            self.flights.clear()
            self.now += 3.0
            self.event(e.Tick())
            self.check()
            if self.done():
                return

    def done(self) -> bool:
        settled = all(state in ("ended", "returned") for state in self.server.attempts.values())
        return settled and len(self.server.attempts) == self.server.total and not self.state.attempts and not self.todo
