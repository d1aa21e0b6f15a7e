"""A message that cannot be read is refused with the limit of its own call."""

from __future__ import annotations

import pytest

from rainbow_sched.model.errors import Invalid
from rainbow_sched.pb.v2 import jobs_pb2
from rainbow_sched.server.admission.methods import LARGE, LARGEST, UNREADABLE, Method
from rainbow_sched.server.admission.policy import OURS, THEIRS


@pytest.mark.parametrize(
    ("method", "limit"),
    [
        (Method.of(f"{OURS}Jobs/Get"), LARGE),
        (Method.of(f"{OURS}Jobs/SubmitBatch"), LARGEST),
        (Method.of(f"{OURS}Agents/Sync"), LARGEST),
        (Method.of(f"{OURS}Clusters/Register", takes_stream=True), LARGEST),
        (Method.of(f"{THEIRS}Register"), LARGEST),
    ],
    ids=lambda value: value.path if isinstance(value, Method) else None,
)
def test_a_message_is_read_up_to_the_limit_of_its_call_and_the_refusal_names_that(method: Method, limit: int) -> None:
    reading = method.reader(len)
    assert reading(bytes(limit)) == limit
    assert reading(bytes(limit + 1)) is UNREADABLE
    with pytest.raises(Invalid, match=f"has over {limit} bytes"):
        method.check(UNREADABLE)


def test_bytes_that_are_no_message_are_no_fault_of_ours() -> None:
    method = Method.of(f"{OURS}Jobs/Get")
    assert method.reader(jobs_pb2.GetJobRequest.FromString)(b"\xff\xff\xff") is UNREADABLE
    assert method.object(UNREADABLE) == ""
