"""^C and ^Z on an attached job, in a process of its own with a terminal of its own."""

import os
import pty
import select
import signal
import subprocess
import sys
import time

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rainbow_sched.cli.shell.attached_job import Interrupts, KeyAction
from rainbow_sched.pb.v2 import jobs_pb2
from tests.support.fake_server import Refusal

PROGRAM = [sys.executable, "-c", "from rainbow_sched.cli.main import main; main()"]


class Session:
    """`rainbow run` on a terminal; keys are sent as the signals that a terminal makes of them."""

    def __init__(self, *args):
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen([*PROGRAM, *args], stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        self.seen = ""

    def until(self, text):
        deadline = time.monotonic() + 20
        while text not in self.seen:
            ready, _, _ = select.select([self.master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{text!r} never came; there was {self.seen!r}"
            self.seen += os.read(self.master, 65536).decode()

    def ends(self):
        try:
            return self.process.wait(20)
        finally:
            self.process.kill()
            os.close(self.master)


@pytest.fixture
def attached(server):
    """A server with one job that runs until it is cancelled, and `rainbow run` attached to it."""
    state = {"state": "bound", "attempt_state": "offered"}

    def cancel(request):
        state.update(state="cancelled")
        return jobs_pb2.CancelResponse(jobs=[jobs_pb2.Job(id=5, state="cancelled")])

    server.answers["Jobs/Submit"] = jobs_pb2.SubmitResponse(id=5)
    server.answers["Jobs/Logs"] = lambda request: []
    server.answers["Jobs/Watch"] = lambda request: [jobs_pb2.Event(seq=1, job=5, kind="bound", state="bound")]
    server.answers["Jobs/Get"] = lambda request: jobs_pb2.Job(id=5, cluster="perl", **state)
    server.answers["Jobs/List"] = lambda request: jobs_pb2.ListJobsResponse(jobs=[jobs_pb2.Job(id=5, **state)])
    server.answers["Jobs/Cancel"] = cancel
    session = Session("run", "--", "sleep", "60")
    session.until("rainbow: 5 perl: waiting for resources (offered, not accepted yet)")
    return session


def test_two_interrupts_cancel_the_job_and_end_with_130(server, attached):
    attached.process.send_signal(signal.SIGINT)
    attached.until("^C again within 2 s cancels job 5")
    assert server.calls("Jobs/Cancel") == []
    attached.process.send_signal(signal.SIGINT)
    attached.until("cancelling job 5")
    assert attached.ends() == 130
    assert list(server.only("Jobs/Cancel").request.ids) == [5]


def test_a_refused_cancel_is_reported(server, attached):
    server.answers["Jobs/Cancel"] = Refusal(grpc.StatusCode.PERMISSION_DENIED, "it is not yours to cancel", "Denied")
    attached.process.send_signal(signal.SIGINT)
    attached.until("^C again within 2 s cancels job 5")
    attached.process.send_signal(signal.SIGINT)
    attached.until("cannot cancel job 5: it is not yours to cancel")
    attached.process.send_signal(signal.SIGINT)
    assert attached.ends() == 130
    assert "Traceback" not in attached.seen


def test_an_interrupt_and_a_stop_detach_and_leave_the_job_alone(server, attached):
    attached.process.send_signal(signal.SIGINT)
    attached.until("^Z detaches")
    attached.process.send_signal(signal.SIGTSTP)
    attached.until("detached; job 5 continues: rainbow logs -f 5")
    assert attached.ends() == 0
    assert server.calls("Jobs/Cancel") == []


def test_two_interrupts_within_two_seconds_cancel_and_a_third_leaves():
    keys = Interrupts()
    assert [keys.interrupt(10.0), keys.interrupt(11.9), keys.interrupt(12.0)] == [
        KeyAction.WARN,
        KeyAction.CANCEL,
        KeyAction.LEAVE,
    ]


def test_two_interrupts_far_apart_only_warn():
    keys = Interrupts()
    assert [keys.interrupt(10.0), keys.interrupt(12.1), keys.interrupt(14.0)] == [
        KeyAction.WARN,
        KeyAction.WARN,
        KeyAction.CANCEL,
    ]


def test_stop_detaches_only_right_after_an_interrupt():
    keys = Interrupts()
    assert keys.stop(9.0) is KeyAction.SUSPEND
    keys.interrupt(10.0)
    assert keys.stop(11.0) is KeyAction.DETACH
    assert keys.stop(13.0) is KeyAction.SUSPEND


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 5)), max_size=8))
def test_no_order_of_keys_cancels_without_two_interrupts(keys):
    interrupts, now, pressed = Interrupts(), 0.0, 0
    for is_stop, later in keys:
        now += later
        act = interrupts.stop(now) if is_stop else interrupts.interrupt(now)
        pressed += not is_stop
        assert act is not KeyAction.CANCEL or pressed >= 2
        assert not (is_stop and act in (KeyAction.CANCEL, KeyAction.LEAVE))
