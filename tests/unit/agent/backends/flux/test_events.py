"""The jobs of an instance, kept by its journal."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.agent.backends.flux.bridge import answer, follow, probe, without_unused_fields
from rainbow_sched.agent.backends.flux.follower import FluxJobTable, asked
from rainbow_sched.agent.backends.flux.jobs import FluxJob
from rainbow_sched.agent.core.values import Phase

R = {
    "version": 1,
    "execution": {
        "R_lite": [{"rank": "0,2", "children": {"core": "0-3"}}],
        "nodelist": ["a1,g1"],
        "starttime": 5,
        "expiration": 65,
    },
}
SLOT = {"type": "slot", "count": 2, "label": "task", "with": [{"type": "core", "count": 4}]}
JOBSPEC = {"resources": [SLOT], "attributes": {"system": {"job": {"name": "rb-7-1"}, "duration": 60}}}


def entry(name: str, at: float = 1.0, id: int = 7, **context: object) -> dict[str, object]:
    """As the journal writes it."""
    found: dict[str, object] = {"id": id, "events": [{"timestamp": at, "name": name, "context": context}]}
    return {**found, **({"jobspec": JOBSPEC} if name == "submit" else {}), **({"R": R} if name == "alloc" else {})}


BEGIN = [entry("submit", userid=1000), entry("validate"), entry("depend"), entry("priority", priority=16)]
RUN = [*BEGIN, entry("alloc", 5.0), entry("start", 5.1)]


def told(*entries: dict[str, object]) -> FluxJob:
    table = FluxJobTable()
    for one in entries:
        table.take(one)
    return table.jobs[0]


def test_a_job_is_what_it_asked_for_until_it_has_it():
    job = told(*BEGIN)
    assert (job.name, job.state, job.phase) == ("rb-7-1", "SCHED", Phase.SUBMITTED)
    assert (job.submitted, job.duration, job.cores, job.nodes, job.on) == (1.0, 60.0, 8, 0, [])
    job = told(*RUN)
    assert (job.phase, job.started, job.expires, job.cores, job.nodes, job.on) == (
        Phase.RUNNING,
        5.0,
        65.0,
        8,
        2,
        [0, 2],
    )


def failing(type: str, at: float = 8.0, severity: int = 0) -> dict[str, object]:
    return entry("exception", at, type=type, severity=severity, note="why")


@pytest.mark.parametrize(
    ("events", "result", "code", "exception"),
    [
        ([*RUN, entry("finish", 9.0, status=0)], "COMPLETED", 0, ""),
        ([*RUN, entry("finish", 9.0, status=3 << 8)], "FAILED", 3, ""),
        ([*RUN, entry("finish", 9.0, status=9)], "FAILED", -9, ""),
        ([*RUN, failing("cancel"), entry("finish", 9.0, status=15)], "CANCELED", -15, "cancel"),
        ([*RUN, failing("timeout"), entry("finish", 9.0, status=142 << 8)], "TIMEOUT", 142, "timeout"),
        ([*RUN, failing("cancel"), entry("finish", 9.0, status=0)], "CANCELED", 0, "cancel"),
        ([*RUN, failing("memo", severity=7), entry("finish", 9.0, status=0)], "COMPLETED", 0, ""),
        ([*RUN, entry("finish", 8.0, status=0), failing("cancel", 8.5)], "COMPLETED", 0, "cancel"),
        ([*BEGIN, failing("cancel")], "CANCELED", -128, "cancel"),
        ([*BEGIN, failing("alloc"), failing("cancel")], "FAILED", 1, "alloc"),
    ],
)
def test_a_job_ends_as_flux_jobs_would_say(events, result, code, exception):
    assert told(*events).phase is (Phase.RUNNING if len(events) > len(RUN) else Phase.SUBMITTED)
    job = told(*events, entry("release", 9.1, ranks="all"), entry("free", 9.2), entry("clean", 9.3))
    assert (job.phase, job.result, job.code, job.exception) == (Phase.ENDED, result, code, exception)
    assert 8.0 <= job.ended <= 9.0


def test_limits_that_change_are_followed():
    job = told(*RUN, entry("resource-update", expiration=125.0), entry("jobspec-update", **{DURATION: 120.0}))
    assert (job.expires, job.duration) == (125.0, 120.0)


DURATION = "attributes.system.duration"


def test_a_job_that_is_not_known_and_an_entry_that_makes_no_sense_change_nothing():
    table = FluxJobTable()
    for one in (entry("finish", status=0), {"id": -1, "events": []}, {"events": None}, {}):
        assert table.take(one) is None
    assert table.jobs == ()


def test_only_what_moved_on_is_news():
    table = FluxJobTable()
    news = [table.take(one) for one in [*RUN, entry("finish", 9.0, status=0), entry("clean", 9.3)]]
    assert [job.state for job in news if job is not None] == ["NEW", "RUN", "INACTIVE"]


@settings(max_examples=50)
@given(st.lists(st.integers(0, 9), max_size=40), st.integers(1, 5))
def test_the_last_ended_jobs_are_kept_and_all_active_ones(ended, kept):
    table = FluxJobTable(kept)
    for id in range(100, 103):
        table.take(entry("submit", id=id, userid=0))
    last: list[int] = []
    for id in ended:
        if id not in last:
            table.put(replace(told(*RUN), id=id, state="INACTIVE"))
            last = [*last, id][-kept:]
    assert {job.id for job in table.jobs} == {100, 101, 102, *last}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ([SLOT], (0, 8)),
        ([{"type": "node", "count": 3, "with": [SLOT]}], (3, 24)),
        ([{"type": "node", "count": 3, "exclusive": True, "with": [SLOT]}], (3, 0)),
        (
            [{"type": "slot", "count": 2, "label": "x", "with": [{"type": "node", "count": 1, "exclusive": True}]}],
            (2, 0),
        ),
        (None, (0, 0)),
    ],
)
def test_what_a_waiting_job_asks_for_is_counted(resources, expected):
    assert asked(resources) == expected


class Handle:
    """Flux's handle, as far as the bridge uses it, with answers given beforehand."""

    def __init__(self, answers: dict[str, object] | None = None) -> None:
        self.answers = answers or {}

    def rpc(self, topic: str, *_: object) -> "Handle":
        self.next = self.answers.get(topic, OSError(38, f"No service matching {topic} is registered"))
        return self

    def get(self) -> object:
        value = self.next.pop(0) if isinstance(self.next, list) else self.next
        if isinstance(value, OSError):
            raise value
        return value

    def reset(self) -> None:
        """Streams go on by themselves here."""


def test_the_bridge_tells_the_journal_without_commands_and_says_when_it_has_caught_up():
    long = {**JOBSPEC, "tasks": [{"command": ["x" * 100_000]}]}
    stream = [{**BEGIN[0], "jobspec": long}, {"id": -1, "events": []}, BEGIN[1], OSError(1, "not permitted")]
    said = []
    follow(Handle({"job-manager.events-journal": stream}), 4, lambda **one: said.append(one))
    assert said == [
        {"journal": BEGIN[0]},
        {"caught_up": True},
        {"journal": BEGIN[1]},
        {"lost": "not permitted"},
    ]
    assert without_unused_fields(BEGIN[1]) == BEGIN[1]


def test_the_bridge_says_which_scheduler_there_is_and_what_it_estimates():
    fluxion = Handle(
        {
            "feasibility.check": None,
            "sched-fluxion-qmanager.params": {"params": {"queue-policy": "easy"}},
            "sched-fluxion-resource.match": {"at": 12},
        }
    )
    assert probe(fluxion, JOBSPEC) == {"fluxion": True, "policy": "easy", "infeasible": "", "at": 12.0}
    fluxion.answers["feasibility.check"] = OSError(19, "Unsatisfiable request")
    assert probe(fluxion, JOBSPEC)["infeasible"] == "Unsatisfiable request"
    fluxion.answers["feasibility.check"] = OSError(32, "EPIPE: Broken pipe")  # no answer is no refusal
    assert probe(fluxion, JOBSPEC)["infeasible"] == ""
    simple = Handle({"feasibility.check": None})
    assert probe(simple, JOBSPEC) == {"fluxion": False, "policy": "", "infeasible": "", "at": None}


def test_the_bridge_answers_each_question_by_its_number():
    said = []
    lines = ['{"n": 3, "of": {}}', '{"n": 4, "of": {}}']
    answer(Handle(), lines, lambda **one: said.append(one))
    assert [one["n"] for one in said] == [3, 4]
    assert all(one["answer"]["fluxion"] is False for one in said)
