"""Flux's ids, states, jobspecs and estimates."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.agent.backends.base import CannotBind, round_to_now
from rainbow_sched.agent.backends.common.programs import ProgramResult
from rainbow_sched.agent.backends.flux.backend import reliable_estimate, simulated_start
from rainbow_sched.agent.backends.flux.commands import FluxCommands
from rainbow_sched.agent.backends.flux.files import FluxFiles
from rainbow_sched.agent.backends.flux.jobs import FluxJob, job_name, job_number, parse_jobs, result
from rainbow_sched.agent.backends.flux.jobspec import plain, with_tag
from rainbow_sched.agent.backends.flux.site import FluxSite, takes
from rainbow_sched.agent.core.values import Phase
from rainbow_sched.discovery.flux import flux_graph, parse_r
from rainbow_sched.jobspecs.dialects.flags import Flags, request_from_flags
from rainbow_sched.jobspecs.dialects.flux import to_flux
from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.binding import GroupHosts
from rainbow_sched.model.errors import Invalid, Unavailable, Unsupported
from rainbow_sched.model.request import Count, Equals, Group, Level, Request, Requirement, Task
from rainbow_sched.protocol.messages import ANY_HOST, AllowedHosts

R = {
    "version": 1,
    "execution": {
        "R_lite": [{"rank": "0-3", "children": {"core": "0-7", "gpu": "0-1"}}],
        "nodelist": ["n[0-3]"],
        "properties": {"ib": "0-1"},
    },
}
SITE = FluxSite(flux_graph("c", R), parse_r(R))


def flags(**given: object) -> Request:
    return request_from_flags(Flags(command=("true",), **given))


def bare_of(request: Request, options: Mapping[str, str], allowed: AllowedHosts = ANY_HOST) -> Request:
    return plain(request, SITE, options, allowed).request


@settings(max_examples=100)
@given(st.integers(1, 2**63))
def test_an_id_reads_back_in_every_form(number):
    assert job_number(job_name(number)) == job_number("ƒ" + job_name(number)[1:]) == job_number(str(number)) == number


def test_what_is_no_id_is_none():
    assert (job_number(""), job_number("f"), job_number("f0O"), job_number("x1")) == (None,) * 4


def a_job(**fields: object) -> dict[str, object]:
    return {"id": 12, "name": "rb-1-1", "userid": 1000, "state": "INACTIVE", "t_submit": 1.0, **fields}


@pytest.mark.parametrize(
    ("fields", "state", "failure", "code"),
    [
        ({"result": "COMPLETED", "returncode": 0, "t_run": 2.0}, AttemptState.SUCCEEDED, None, 0),
        ({"result": "FAILED", "returncode": 3, "t_run": 2.0}, AttemptState.FAILED, Failure.EXIT, 3),
        ({"result": "FAILED", "returncode": 137, "t_run": 2.0}, AttemptState.FAILED, Failure.EXIT, 137),
        ({"result": "FAILED", "returncode": -9, "t_run": 2.0}, AttemptState.FAILED, Failure.EXIT, 137),
        ({"result": "TIMEOUT", "returncode": 142, "t_run": 2.0}, AttemptState.FAILED, Failure.TIME_LIMIT, 142),
        ({"result": "CANCELED", "returncode": -128}, AttemptState.CANCELLED, None, None),
        ({"result": "CANCELED", "returncode": 143, "t_run": 2.0}, AttemptState.CANCELLED, None, 143),
        (
            {
                "result": "FAILED",
                "returncode": 1,
                "exception": {"occurred": True, "severity": 0, "type": "alloc", "note": "no"},
            },
            AttemptState.FAILED,
            Failure.REFUSED,
            None,
        ),
        (
            {
                "result": "FAILED",
                "returncode": 143,
                "t_run": 2.0,
                "exception": {"occurred": True, "severity": 0, "type": "exec", "note": "node failure on n3 (rank 2)"},
            },
            AttemptState.FAILED,
            Failure.NODE,
            143,
        ),
        (
            {
                "result": "FAILED",
                "returncode": 1,
                "t_run": 2.0,
                "exception": {
                    "occurred": True,
                    "severity": 0,
                    "type": "exec",
                    "note": "lost contact with job shell on n3",
                },
            },
            AttemptState.FAILED,
            Failure.NODE,
            1,
        ),
    ],
)
def test_a_result_of_flux_says_how_it_ended(fields, state, failure, code):
    (job,) = parse_jobs(json.dumps({"jobs": [a_job(**fields)]}))
    found = result(job)
    assert (job.phase, found.state, found.failure, found.exit_code) == (Phase.ENDED, state, failure, code)


def test_what_never_began_failed_to_launch():
    about = {"occurred": True, "severity": 0, "type": "exec", "note": "shell_init: No such file or directory"}
    (job,) = parse_jobs(json.dumps({"jobs": [a_job(result="FAILED", returncode=1, t_run=2.0, exception=about)]}))
    assert result(job, began=False).failure is Failure.LAUNCH
    assert result(job, began=True).failure is Failure.EXIT


@pytest.mark.parametrize(
    ("state", "phase"),
    [("DEPEND", Phase.SUBMITTED), ("SCHED", Phase.SUBMITTED), ("RUN", Phase.RUNNING), ("CLEANUP", Phase.RUNNING)],
)
def test_what_has_not_ended_waits_or_runs(state, phase):
    started = {"t_run": 2.0} if phase is Phase.RUNNING else {}
    assert parse_jobs(json.dumps({"jobs": [a_job(state=state, **started)]}))[0].phase is phase
    assert parse_jobs(json.dumps({"jobs": [a_job(state="CLEANUP")]}))[0].phase is Phase.SUBMITTED  # it never ran


def test_an_answer_that_cannot_be_read_is_no_answer():
    with pytest.raises(Unavailable):
        parse_jobs("flux-jobs: oops")


def test_a_request_becomes_a_jobspec_with_its_mark_environment_and_output():
    asked = replace(
        flags(nodes=2, tasks=2, cores_per_task=4),
        duration=600.0,
        options={"partition": "batch"},
        properties=("ib",),
        requires=(Requirement("software", (Equals("name", "x"),)),),
    )
    request = replace(bare_of(asked, {"bank": "lab", "queue.batch": "pbatch"}), name="rb-1-1", cwd="/tmp")
    document = with_tag(to_flux(request), {"tag": "rb-1-1"}, {"stdout": "/x/out.{{id.dec}}"})
    system = document["attributes"]["system"]
    assert (system["job"], system["duration"], system["cwd"]) == ({"name": "rb-1-1"}, 600.0, "/tmp")
    assert (system["queue"], system["bank"]) == ("pbatch", "lab")
    assert system["constraints"] == {"properties": ["ib"]}
    assert system["shell"]["options"] == {
        "output": {"stdout": {"type": "file", "path": "/x/out.{{id.dec}}"}},
        "exit-timeout": "none",  # else Flux ends the job 30 s after its first task
    }
    assert document["attributes"]["user"] == {"rainbow": {"tag": "rb-1-1"}}
    assert document["resources"][0]["type"] == "node"


def test_a_rack_that_the_instance_does_not_have_stands_for_the_instance():
    inside = Level(type="node", count=Count(2), inside=(Level(type="core", count=Count(2)),))
    rack = Level(type="rack", shared=True, abstract=True, inside=(inside,))
    request = replace(flags(), groups=(Group(levels=(rack,)),))
    assert to_flux(bare_of(request, {}))["resources"][0]["count"] == 2


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (flags(nodes=1, tasks=1, memory="4G"), "memory"),
        (replace(flags(), image="x"), "container"),
        (replace(flags(), options={"qos": "x"}), "unknown option 'qos'"),
        (replace(flags(), tasks=(Task(command=("a",)),) * 2), "one task"),
        (replace(flags(), groups=(Group(levels=(Level(type="quantum"),)),)), "quantum"),
    ],
)
def test_what_a_jobspec_cannot_say_is_refused_by_name(request_, reason):
    with pytest.raises(Unsupported, match=reason):
        to_flux(bare_of(request_, {}))


@pytest.mark.parametrize(
    ("request_", "fits"),
    [
        (flags(tasks=32), True),
        (flags(tasks=33), False),
        (flags(tasks=4, cores_per_task=8), True),
        (flags(tasks=5, cores_per_task=5), False),
        (flags(nodes=4, tasks=4), True),
        (flags(nodes=5, tasks=5), False),
        (flags(tasks=8, gpus_per_task=1), True),
        (flags(tasks=9, gpus_per_task=1), False),
        (replace(flags(), properties=("h100",)), False),
        (replace(flags(), properties=("^h100",)), True),
    ],
)
def test_what_can_never_run_is_known_before_it_is_submitted(request_, fits):
    bare = bare_of(request_, {})
    assert (SITE.lacks(bare, to_flux(bare)) is None) is fits


QUEUES = replace(SITE, queues={"batch": ("ib",), "debug": ()})


@pytest.mark.parametrize(
    ("request_", "site", "reason"),
    [
        (flags(tasks=16), QUEUES, "name a queue; this instance has batch, debug"),
        (flags(tasks=16), replace(QUEUES, default_queue="batch"), None),
        (flags(tasks=17), replace(QUEUES, default_queue="batch"), "room for 16 on the 2 nodes"),
        (replace(flags(tasks=17), options={"queue": "debug"}), QUEUES, None),
        (replace(flags(), options={"queue": "night"}), QUEUES, "no queue 'night'; this instance has batch, debug"),
        (replace(flags(), options={"queue": "night"}), SITE, "no queue 'night'; this instance has none"),
        (replace(flags(tasks=17), properties=("ib",)), SITE, "room for 16 on the 2 nodes"),
        (replace(flags(tasks=17), properties=("^ib",)), SITE, "room for 16 on the 2 nodes"),
        (replace(flags(tasks=9), hosts=("n1",)), SITE, "room for 8 on the 1 node"),
        (replace(flags(tasks=25), not_hosts=("n1",)), SITE, "room for 24 on the 3 nodes"),
        (replace(flags(tasks=24), not_hosts=("n1",)), SITE, None),
    ],
)
def test_only_nodes_that_may_be_used_count(request_, site, reason):
    bare = bare_of(request_, {})
    said = site.lacks(bare, to_flux(bare))
    assert said is None if reason is None else reason in (said or "")


def test_requirements_on_properties_and_queues_become_fluxs_own_words():
    wanted = Requirement("properties", (Equals("name", "ib"),)), Requirement("queues", (Equals("name", "batch"),))
    bare = bare_of(replace(flags(), requires=wanted), {"queue.batch": "pbatch"})
    assert (bare.properties, bare.options, bare.requires) == (("ib",), {"queue": "pbatch"}, ())
    with pytest.raises(Unsupported, match="one queue"):
        bare_of(replace(flags(), requires=wanted, options={"queue": "debug"}), {})


def bound(*hosts: str) -> AllowedHosts:
    """What a server says that worked the hosts out."""
    return AllowedHosts((GroupHosts(0, hosts),) if hosts else (), checked=True)


def constraint(request: Request, allowed: AllowedHosts) -> object:
    return to_flux(bare_of(request, {}, allowed))["attributes"]["system"].get("constraints")


@pytest.mark.parametrize(
    ("request_", "allowed", "expected"),
    [
        (flags(), bound(), None),
        (flags(), bound("n1", "n3"), {"hostlist": ["n1,n3"]}),
        (replace(flags(), hosts=("n1", "n2")), bound("n2", "n3"), {"hostlist": ["n2"]}),
        (replace(flags(), hosts=("r1",)), bound("n2", "n3"), {"hostlist": ["n2,n3"]}),  # a rack, by its nodes
        (
            replace(flags(), not_hosts=("n2",), properties=("ib",)),
            bound("n0", "n2"),
            {"and": [{"properties": ["ib"]}, {"hostlist": ["n0,n2"]}, {"not": [{"hostlist": ["n2"]}]}]},
        ),
        (replace(flags(), properties=("^fast", "slow")), bound("n0"), {"hostlist": ["n0"]}),  # not words of Flux
    ],
)
def test_flux_chooses_among_the_allowed_hosts(request_: Request, allowed: AllowedHosts, expected: object):
    assert constraint(request_, allowed) == expected


NVME = Level(type="node", requires=(Requirement("io", (Equals("kind", "nvme"),)),))


@pytest.mark.parametrize(
    ("request_", "allowed", "reason"),
    [
        (flags(), bound("x1", "x2"), r"may run on x\[1-2\], but Flux has n\[0-3\]"),
        (replace(flags(), hosts=("n1",)), bound("n2"), "no node of this instance is among the hosts"),
        (
            replace(flags(), groups=(Group(levels=(NVME,)),)),
            AllowedHosts(),
            "the server does not send the allowed nodes",
        ),
        (replace(flags(), not_hosts=("c",)), AllowedHosts(), "c is not a node"),
    ],
)
def test_a_job_that_cannot_be_kept_on_its_nodes_is_refused(request_: Request, allowed: AllowedHosts, reason: str):
    with pytest.raises(CannotBind, match=reason):
        bare_of(request_, {}, allowed)


def test_nodes_of_one_name_cannot_be_told_apart_unless_all_of_them_are_allowed():
    names = {**R["execution"], "nodelist": ["vm,vm,n2,n3"]}
    twins = replace(SITE, nodes=parse_r({**R, "execution": names}))
    with pytest.raises(CannotBind, match="some of the nodes that Flux calls vm"):
        plain(flags(), twins, {}, bound("vm", "n2"))
    assert plain(flags(), twins, {}, bound("vm", "vm")).only == ("vm",)


def running(cores: int, ends: float | None) -> FluxJob:
    return FluxJob(id=1, name="", state="RUN", cores=cores, expires=ends)


def waiting(cores: int, duration: float | None, at: float = 0.0) -> FluxJob:
    return FluxJob(id=2, name="", state="SCHED", cores=cores, duration=duration, submitted=at)


def test_the_queue_is_played_forward():
    full = [running(8, 100.0)]
    assert simulated_start([], 4, 8, 0.0) == 0.0
    assert simulated_start(full, 4, 0, 0.0) == 100.0
    assert simulated_start([*full, waiting(8, 50.0)], 4, 0, 0.0) == 150.0
    assert simulated_start([running(8, None)], 4, 0, 0.0) is None
    assert simulated_start([*full, waiting(8, None)], 1, 0, 0.0) is None


def test_the_schedulers_word_counts_where_nothing_waits_or_everything_is_reserved():
    answer = {"fluxion": True, "policy": "fcfs", "at": 30.0}
    assert reliable_estimate(answer, waiting=False) == 30.0
    assert reliable_estimate(answer, waiting=True) is None
    assert reliable_estimate({**answer, "policy": "conservative"}, waiting=True) == 30.0
    assert reliable_estimate({"fluxion": False, "policy": "", "at": None}, waiting=False) is None
    assert reliable_estimate({}, waiting=False) is None
    assert (round_to_now(0.5), round_to_now(30.0), round_to_now(None)) == (0.0, 30.0, None)


def test_what_never_ends_is_not_waited_for():
    """Fluxion says 9223372036 of a job without a limit, and of what waits behind it."""
    assert reliable_estimate({"fluxion": True, "policy": "fcfs", "at": 9223372036.0}, waiting=False) is None
    (job,) = parse_jobs(json.dumps({"jobs": [a_job(state="RUN", expiration=9223372036.0, ncores=8)]}))
    assert simulated_start([job], 1, 0, 0.0) is None


def test_only_the_nodes_that_a_job_may_use_count_for_its_start():
    ib = frozenset({0, 1})
    assert SITE.sized(replace(running(16, 9.0), ranks="1-2"), ib).cores == 8
    assert SITE.sized(replace(running(8, 9.0), ranks="3"), ib).cores == 0
    assert SITE.sized(waiting(4, 9.0), ib).cores == 4
    assert SITE.sized(waiting(32, 9.0), ib).cores == 16  # it may be waiting for other nodes
    assert SITE.sized(replace(waiting(0, 9.0), nodes=1), ib).cores == 8  # a whole node


def test_whole_nodes_are_taken_with_all_that_is_in_them():
    shared, whole = flags(nodes=2, tasks=2), flags(nodes=2)
    assert takes(to_flux(bare_of(shared, {})), parse_r(R)) == (2, 2, 0)
    assert takes(to_flux(bare_of(whole, {})), parse_r(R)) == (2, 16, 4)


_jobs = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 20)), max_size=4)


@settings(max_examples=150)
@given(now_running=_jobs, queued=_jobs, cores=st.integers(1, 8), idle=st.integers(0, 4))
def test_played_forward_agrees_with_a_clock_that_ticks(now_running, queued, cores, idle):
    jobs = [running(many, float(end)) for many, end in now_running]
    jobs += [waiting(many, float(lasts), at=float(i)) for i, (many, lasts) in enumerate(queued)]
    total = idle + sum(many for many, _ in now_running)
    assert simulated_start(jobs, cores, idle, 0.0) == tick(total, now_running, queued, cores)


def tick(total, now_running, queued, cores):
    """Second by second, first come first served."""
    queue = [*queued, (cores, math.inf)]
    active = list(now_running)
    for second in range(200):
        active = [(many, end) for many, end in active if end > second]
        while queue and queue[0][0] <= total - sum(many for many, _ in active):
            many, lasts = queue.pop(0)
            if not queue:
                return float(second)
            active.append((many, second + lasts))
    return None


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("flux: ERROR: Unable to connect to Flux: /x/local: No such file or directory", Unavailable),
        ("flux-jobs: ERROR: Unable to connect to Flux: broker socket /x/local was not found", Unavailable),
        ("flux-job: flux_open: Connection refused", Unavailable),
        ("flux-job: flux_open: Connection reset by peer", Unavailable),
        ("flux-job: Operation canceled", Unavailable),
        ("[Errno 1] Invalid queue 'nope' specified", Invalid),
        ("", Unavailable),
        ("flux-job: version must be 1", Invalid),
    ],
)
def test_no_answer_and_a_refusal_are_told_apart(said, kind):
    assert isinstance(FluxCommands({}).problem(ProgramResult(1, "", said)), kind)


def test_the_nodes_of_a_job_are_told_by_its_list_or_by_its_ranks(tmp_path):
    files = FluxFiles(tmp_path, "rb-1-1")
    job = FluxJob(id=1, name="rb-1-1", state="RUN", ranks="1-2")
    assert files.update(job, parse_r(R)).nodes == "n[1-2]"
    assert files.update(replace(job, node_list="m7"), parse_r(R)).nodes == "m7"
    assert files.update(replace(job, state="SCHED", ranks=""), parse_r(R)).nodes == ""
