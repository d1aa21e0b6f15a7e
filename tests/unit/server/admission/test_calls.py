"""A message that cannot be read is refused with the limit of its own call."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from rainbow_sched.model.errors import Invalid
from rainbow_sched.pb.v2 import jobs_pb2
from rainbow_sched.server.admission.calls import MAX_BULK_MESSAGE_BYTES, MAX_MESSAGE_BYTES, UNREADABLE, Call, Method
from rainbow_sched.server.admission.policy import PROTOTYPE, V2


@pytest.mark.parametrize(
    ("method", "limit"),
    [
        (Method.of(f"{V2}Jobs/Get"), MAX_MESSAGE_BYTES),
        (Method.of(f"{V2}Jobs/SubmitBatch"), MAX_BULK_MESSAGE_BYTES),
        (Method.of(f"{V2}Agents/Sync"), MAX_BULK_MESSAGE_BYTES),
        (Method.of(f"{V2}Clusters/Register", takes_stream=True), MAX_BULK_MESSAGE_BYTES),
        (Method.of(f"{PROTOTYPE}Register"), MAX_BULK_MESSAGE_BYTES),
    ],
    ids=lambda value: value.path if isinstance(value, Method) else None,
)
def test_a_message_is_read_up_to_the_limit_of_its_call_and_the_refusal_names_that(method: Method, limit: int) -> None:
    reading = method.reader(len)
    assert reading(bytes(limit)) == limit
    assert reading(bytes(limit + 1)) is UNREADABLE
    with pytest.raises(Invalid, match=f"has over {limit} bytes"):
        Call(method, Mock(), peer="", address="", message=UNREADABLE).check_message()


def test_malformed_bytes_are_not_an_internal_error() -> None:
    method = Method.of(f"{V2}Jobs/Get")
    assert method.reader(jobs_pb2.GetJobRequest.FromString)(b"\xff\xff\xff") is UNREADABLE
    assert method.object(UNREADABLE) == ""
