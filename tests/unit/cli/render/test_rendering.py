"""Exact texts of the output for people."""

import datetime
from dataclasses import replace
from itertools import product

from rainbow_sched.cli.commands.cancel import sentence
from rainbow_sched.cli.render import clusters as render_clusters
from rainbow_sched.cli.render import decisions
from rainbow_sched.cli.render import jobs as render_jobs
from rainbow_sched.cli.render.listings import listing_text
from rainbow_sched.cli.render.terminal import hanging
from rainbow_sched.cli.shell.attached_job import status_line
from rainbow_sched.cli.shell.exit_codes import ExitCode
from rainbow_sched.jobspecs.dialects.flags import Flags, request_from_flags
from rainbow_sched.model.decision import Decision

NOW = datetime.datetime(2026, 11, 15, 9, 11, 20, tzinfo=datetime.UTC).timestamp()


def at(seconds_ago):
    moment = datetime.datetime.fromtimestamp(NOW - seconds_ago, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def a_job(id, **known):
    return {"id": id, "owner": "user:ana", "nodes": 4, "state": "queued", "submitted_at": at(12), **known}


def why(cluster, fit, reason, *changes):
    return {
        "cluster": cluster,
        "fit": fit,
        "reasons": [{"sentence": reason}],
        "changes": [{"sentence": change} for change in changes],
    }


def a_decision(ranked=(), dropped=(), misfits=None, outcome=None, estimates=None, scores=None):
    """A record as the scheduler writes it; `ranked` and `dropped` are (name, fit, now, ever, reason)."""
    rows = [*ranked, *dropped]
    names = [row[0] for row in ranked]
    return Decision.from_record(
        {
            "schema": "rainbow.decision/2",
            "snapshot": 1,
            "at": NOW - 6,
            "seed": 1,
            "request": {
                "hash": "",
                "name": "",
                "nodes": 1,
                "cores": 1,
                "duration": None,
                "parameters": {},
                "options": {},
            },
            "policy": {"name": "start", "options": {}, "configured": "start", "configured_options": {}},
            "limits": {},
            "stale_after": 300,
            "outcome": outcome or {"kind": "chosen", "cluster": names[0]},
            "ranked": names,
            "clusters": {
                "name": [row[0] for row in rows],
                "fit": [row[1] for row in rows],
                "slots_now": [row[2] for row in rows],
                "slots_ever": [row[3] for row in rows],
                "at": [None for _ in rows],
            },
            "scores": [(scores or {}).get(name) for name in names],
            "reasons": [row[4] for row in ranked],
            "dropped": {row[0]: row[4] for row in dropped},
            "state": {"columns": {}, "rare": {}},
            "terms": {},
            "placed": {},
            "bids": {},
            "no_bids": {},
            "records": {},
            "estimates": estimates or {},
            "notes": {},
            "misfits": misfits or {},
        }
    )


def test_the_list_of_jobs():
    jobs = [
        a_job(121, name="train", nodes=8, reason="asking 3 clusters"),
        a_job(
            120,
            name="lmp",
            state="bound",
            cluster="perl",
            attempt_state="submitted",
            native_id="88123",
            submitted_at=at(186),
        ),
        a_job(119, name="e\x1b[31mvil\nname", state="held", hold="user"),
        a_job(
            118,
            name="lmp",
            state="bound",
            cluster="perl",
            attempt_state="running",
            native_id="88120",
            started_at=at(702),
        ),
        a_job(117, state="failed", exit_code=3, cluster="eks", started_at=at(90), ended_at=at(30)),
    ]
    assert listing_text(render_jobs.listing(NOW), jobs, "table") == (
        "JOBID USER NAME      ST N CLUSTER  TIME INFO\n"
        "  121 ana  train      S 8 -         12s asking 3 clusters\n"
        "  120 ana  lmp        S 4 perl     3.1m native 88123, queued there\n"
        "  119 ana  evil name  P 4 -         12s held; release with: rainbow release 119\n"
        "  118 ana  lmp        R 4 perl    11.7m native 88120\n"
        "  117 ana  -          F 4 eks      1.0m exit 3\n"
    )
    assert listing_text(render_jobs.listing(NOW), jobs[3:], "{id} {status} {cluster} {returncode}") == (
        "118 BOUND perl \n117 FAILED eks 3\n"
    )
    active, inactive = render_jobs.FILTERS["active"], render_jobs.FILTERS["inactive"]
    everything = "1 running, 3 pending; 0 completed, 1 failed, 0 cancelled, 0 timeout, 0 handed-off"
    assert render_jobs.stats(jobs, active | inactive) == everything
    assert render_jobs.stats(jobs, active) == "1 running, 3 pending", "what was not asked for was not counted"
    assert render_jobs.stats(jobs, frozenset({"F"})) == "1 failed"


def test_the_list_of_clusters():
    clusters = [
        {
            "name": "perl",
            "manager": "slurm",
            "standing": "active",
            "seen_at": at(3),
            "totals": [
                {"type": "node", "free": 12, "all": 64, "vertices": 64},
                {"type": "core", "free": 768, "all": 4096, "vertices": 4096},
                {"type": "gpu", "free": 24, "all": 128, "vertices": 128},
            ],
            "queued": 41,
            "running": 7,
            "record": {"jobs": 120.0, "weight": 10.0, "held": 9.3, "log_bias": 3.3647},
        },
        {"name": "eks", "standing": "unreachable", "seen_at": at(14 * 60), "queued": 0, "running": 0},
    ]
    assert listing_text(render_clusters.listing(NOW), clusters, "table") == (
        "NAME MANAGER STATE       SEEN NODES(free/all) CORES    GPU    QUEUE RUNS BIDS(p90 held, bias)\n"
        "perl slurm   active        3s 12/64           768/4096 24/128    41    7 93% of 120, x1.4\n"
        "eks  -       unreachable  14m -               -        -          0    0 -\n"
    )
    assert render_clusters.cluster_details(clusters[0] | {"state": {"nodes_free": 12}, "state_at": at(60)}, NOW) == (
        "perl: active\n"
        "  manager     slurm\n"
        "  seen        3s ago\n"
        "  jobs        7 running, 41 waiting there\n"
        "  subsystems  none\n"
        "  bids        93% of 120, x1.4\n"
        "  nodes       not enforced: the cluster has no agent\n"
        "  TYPE FREE  ALL VERTICES UNIT\n"
        "  node   12   64       64 -\n"
        "  core  768 4096     4096 -\n"
        "  gpu    24  128      128 -\n"
        "  state, reported 1m ago:\n"
        "    nodes_free = 12\n"
    )


def test_a_cluster_says_whether_jobs_stay_on_their_nodes():
    old, new = {"hosts": False}, {"hosts": True, "subsystems": ["gpu", "partition"]}
    assert render_clusters.format_node_rules({"node_rules": old}) == ("not enforced: the agent is too old; upgrade it")
    assert render_clusters.format_node_rules({"node_rules": new, "wrong_nodes": 2}) == (
        "enforced; gpu, partition as native constraints of the manager; 2 jobs returned because of wrong nodes"
    )


def test_a_plan_says_to_which_nodes_the_job_is_bound_and_where_that_is_not_enforced():
    explanations = [
        {"cluster": "perl", "hosts": [{"group": 0, "hosts": "n[2-3]"}, {"group": 1, "hosts": "n[2-3]"}]},
        {"cluster": "tuo", "hosts": [{"group": 0, "hosts": "t1"}, {"group": 1, "hosts": "t2"}], "wrong_nodes": 1},
        {"cluster": "lab", "hosts": [{"group": 1, "hosts": "x1"}], "groups": 2},
        {"cluster": "desk", "nodes": "no agent"},
        {"cluster": "tiny", "fit": "never", "nodes": "no agent"},
        {"cluster": "eks"},
    ]
    assert decisions.nodes(explanations) == (
        " Nodes of perl: runs only on n[2-3]\n"
        " Nodes of tuo: runs only on t1 (group 1), t2 (group 2); its manager used wrong nodes 1 time\n"
        " Nodes of lab: runs only on x1 (group 2)\n"
        " Nodes of desk: no agent\n"
    )


def test_a_plan_ticks_the_chosen_cluster_and_gives_a_reason_for_each_other():
    decision = a_decision(
        ranked=[("perl", "now", 64, 64, "starts first"), ("corona", "now", 12, 121, "starts later")],
        dropped=[("eks", "now", 6, 32, "costs 12.00, at most 10.00 allowed")],
        misfits={"tuo": ["never", ""], "lab3": ["never", ""]},
        estimates={"perl": [80.0, 100.0, 1.0, 8.0, "agent"], "corona": [0.0, 0.0, 1.0, None, "state"]},
        scores={"perl": 0.913, "corona": 0.84},
    )
    explanations = [
        why("tuo", "never", "software lammps: found 2023.8, need >=2024"),
        why("lab3", "never", "gpu: 0 in graph, 4 needed", "drop gpu 1"),
    ]
    text = decisions.plan(
        decision,
        explanations,
        request=replace(
            request_from_flags(Flags(nodes=4, command=("x",))), ignored=("line 4: --mail-type is not honoured",)
        ),
        now=NOW,
        managers={"perl": "slurm", "corona": "flux", "tuo": "flux"},
        source="job.sh",
    )
    assert text == (
        " CLUSTER MANAGER MATCH                 START WAIT COST SCORE CHOSEN\n"
        " perl    slurm   64 free / 4 needed 09:12:40 1.3m 8.00 0.913 ✔\n"
        " corona  flux    12 free / 4 needed 09:11:20   0s    -  0.84\n"
        " ✗ eks         costs 12.00, at most 10.00 allowed\n"
        " ✗ tuo   flux  software lammps: found 2023.8, need >=2024\n"
        " ✗ lab3        gpu: 0 in graph, 4 needed\n"
        " Would fit if: drop gpu 1 → lab3\n"
        "Ignored from job.sh: line 4: --mail-type is not honoured\n"
        "Policy start: starts first.\n"
    )
    assert decisions.exit_code(decision) == ExitCode.OK


def test_a_member_of_an_array_is_listed_with_its_index():
    member = a_job(4, name="sh", terms={"labels": {"array_index": "3"}})
    assert render_jobs.shown_name(member) == "sh[3]"
    assert render_jobs.shown_name(a_job(5, name="sh")) == "sh"


def test_clusters_that_the_owner_excluded_are_not_listed():
    waits = {"kind": "wait", "reasons": ["eks: not among them", "perl: busy"], "ever": True}
    rows = [("perl", "later", 2, 64, "busy"), ("eks", "now", 9, 9, "not among them")]
    decision = a_decision(dropped=rows, outcome=waits)
    decision = Decision.from_record({**decision.record, "limits": {"only": ["perl"], "never": []}})
    said = [why("perl", "later", "core: 4 needed, 2 free now"), why("eks", "now", "")]
    assert decisions.rejected(decision, said, {}) == " ✗ perl  busy\n         core: 4 needed, 2 free now\n"
    twice = [why("perl", "closed", "busy")]
    assert decisions.rejected(decision, twice, {}) == " ✗ perl  busy\n"
    assert decisions.verdict(decision) == "No cluster can run it now; 1 cluster can later.\n"
    terms = {"only_clusters": ["perl"]}
    job = a_job(1, state="held", hold="nothing-fits", reason="eks: not among them; perl: busy", terms=terms)
    view = {"job": job, "decision": decision.record, "explanations": said}
    assert "eks" not in decisions.explain(view, now=NOW, verbose=True)
    never = a_decision(dropped=rows[1:], misfits={"perl": ["never", ""]}, outcome=waits)
    never = Decision.from_record({**never.record, "limits": {"only": ["perl"], "never": []}})
    assert decisions.exit_code(never) == ExitCode.UNSATISFIABLE
    assert decisions.verdict(never) == "No cluster can ever run it.\n"


def test_a_plan_distinguishes_later_and_never():
    later = a_decision(ranked=[("perl", "later", 2, 64, "first")])
    waits = a_decision(
        dropped=[("perl", "later", 2, 64, "busy")], outcome={"kind": "wait", "reasons": [], "ever": True}
    )
    never = a_decision(misfits={"perl": ["never", ""]}, outcome={"kind": "refuse", "reasons": [], "ever": False})
    assert [decisions.exit_code(one) for one in (later, waits, never)] == [75, 75, 3]
    assert decisions.verdict(waits) == "No cluster can run it now; 1 cluster can later.\n"
    assert decisions.verdict(never) == "No cluster can ever run it.\n"


def test_a_plan_where_no_cluster_was_looked_at_says_why():
    nobody = a_decision(outcome={"kind": "refuse", "reasons": ["no cluster is registered"], "ever": False})
    assert decisions.verdict(nobody) == "No cluster can ever run it: no cluster is registered.\n"


def test_an_explanation_says_where_the_job_is_what_each_cluster_lacks_and_what_would_help():
    job = a_job(
        122,
        name="train",
        state="held",
        hold="nothing-fits",
        reason="no cluster fits now",
        submitted_at=at(560),
        evaluations=14,
        evaluated_at=at(6),
    )
    decision = a_decision(
        dropped=[("corona", "later", 2, 121, "2 nodes are free, 8 needed")],
        outcome={"kind": "wait", "reasons": ["corona: 2 nodes are free, 8 needed"], "ever": True},
    )
    view = {
        "job": job,
        "decision": decision.record,
        "explanations": [
            why("corona", "later", "nodes: 2 free, 8 needed", "-N 2"),
            why("perl", "never", "gpu.model=h100: graph has a100"),
            why("eks", "closed", "its agent is silent"),
        ],
        "events": [{"seq": 1, "job": 122, "at": at(560), "kind": "submitted", "state": "queued", "detail": {"of": ""}}],
    }
    assert decisions.explain(view, now=NOW, verbose=False) == (
        "Job 122 (train) is PENDING since 09:02:00; evaluated 14 times, last 6s ago. "
        "No cluster can run it now; 1 cluster can later.\n"
        "Last decision at 09:11:14: wait (corona: 2 nodes are free, 8 needed). Policy start.\n"
        " corona  LATER    nodes: 2 free, 8 needed\n"
        " perl    NEVER    gpu.model=h100: graph has a100\n"
        " eks     SKIP     its agent is silent\n"
        " Would fit if: -N 2 → corona\n"
        " Timeline, bids, scores: rainbow explain 122 -v, or -o json\n"
    )
    verbose = decisions.explain(view, now=NOW, verbose=True)
    assert "Timeline:\n 09:02:00  submitted     queued\n" in verbose
    assert " ✗ corona  2 nodes are free, 8 needed\n" in verbose


def test_a_job_that_only_a_closed_cluster_might_run_is_not_called_impossible():
    job = a_job(7, state="held", hold="nothing-fits", submitted_at=at(9))
    view = {"job": job, "explanations": [why("eks", "closed", "is draining"), why("perl", "never", "no gpu")]}
    said = decisions.explain(view, now=NOW, verbose=False)
    assert "No cluster can run it now; 1 cluster accepts no jobs.\n" in said


def test_the_status_line_shows_where_the_job_is():
    job = a_job(119, state="bound", cluster="perl", attempt_state="submitted", native_id="88123")
    assert status_line(job, 8) == "rainbow: 119 perl: waiting for resources (native 88123, queued there)    00:00:08"


def test_a_cancel_reports_each_job():
    rows = [
        {"id": 120, "state": "cancelling", "cluster": "perl", "native_id": "88123"},
        {"id": 121, "state": "cancelled"},
        {"id": 122, "state": "succeeded", "cluster": "eks"},
    ]
    assert sentence(rows, dry_run=False) == (
        "cancelled 2 jobs (120 on perl: native 88123, ending; 121: never dispatched; 122 on eks: had already succeeded)"
    )
    assert sentence([row | {"unchanged": True} for row in rows], dry_run=False) == (
        "cancelled 0 jobs (120 on perl: native 88123, was already ending; 121: was already cancelled; "
        "122 on eks: had already succeeded)"
    )
    assert sentence(rows[:1], dry_run=True) == "would cancel 1 job"
    assert sentence([], dry_run=False) == "cancelled 0 jobs"
    assert sentence([{"id": i, "state": "cancelled"} for i in range(12)], dry_run=False).endswith("; and 2 more)")


def test_long_reasons_are_wrapped_under_their_beginning():
    text = " ".join(f"word{at:02}" for at in range(40))
    lines = hanging(" ✗ perl  ", [text], 60).splitlines()
    assert all(len(line) <= 60 for line in lines)
    assert lines[0].startswith(" ✗ perl  word00")
    assert all(line.startswith("         word") for line in lines[1:])
    assert " ".join(" ".join(lines).split()) == f"✗ perl {text}"
    assert hanging(" ✗ perl  ", ["one", "two"], 60) == " ✗ perl  one\n         two\n"
    assert hanging(" ✗ perl  ", ["x" * 100], 60) == f" ✗ perl  {'x' * 100}\n"


def test_an_explanation_shows_a_report_that_the_server_does_not_understand():
    detail = {"unknown_report": '{"state": "molten"}', "why": "the state is not known", "of": 1, "cluster": "east"}
    event = {"seq": 5, "job": 122, "at": at(30), "kind": "updated", "state": "bound", "attempt": 1, "detail": detail}
    job = a_job(122, name="train", state="bound", cluster="east", attempt_state="accepted", evaluations=1)
    shown = decisions.explain({"job": job, "events": [event]}, now=NOW, verbose=False)
    assert (
        "Reports that the server does not understand and ignored:\n"
        ' east reported at 09:10 of attempt 1: {"state": "molten"}\n'
        "   the state is not known\n"
        " The agent sends it again after a restart or an upgrade of the server, or after its own restart.\n"
    ) in shown.replace(f" {decisions.format_clock(NOW - 30, NOW)} ", " 09:10 ")
    assert "does not understand" not in decisions.explain({"job": job, "events": []}, now=NOW, verbose=False)


def test_every_state_and_hold_has_a_letter():
    from rainbow_sched.cli.render.jobs import FILTERS, STATES, state_letter
    from rainbow_sched.model.attempt import AttemptState
    from rainbow_sched.model.job import Hold
    from rainbow_sched.model.job_state import JobState

    for state, hold, attempt in product(JobState, [*Hold, ""], [*AttemptState, ""]):
        job = {"state": str(state), "hold": str(hold), "attempt_state": str(attempt)}
        assert str(state) in STATES[state_letter(job)]
        assert (state_letter(job) in FILTERS["inactive"]) == state.terminal
        assert (state_letter(job) in FILTERS["active"]) != state.terminal
