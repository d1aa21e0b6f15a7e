"""The output of real jobs: followed while they run, read after any end, cut when there is too much of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.support.fleet import Fleet, a_fleet

pytestmark = pytest.mark.timeout(120)
CAP = 16 * 1024 * 1024


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with a_fleet(tmp_path_factory.mktemp("output")) as running:
        running.add("east")
        yield running


def test_logs_follow_a_running_job_to_its_end(fleet: Fleet) -> None:
    gate = fleet.server.folder / "follow-gate"
    id = fleet.submit("east", gate=gate, seconds=0, code=3)
    with fleet.begin("logs", "-f", str(id)) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == f"out {id}\n"  # while it runs
        assert not fleet.client.job(id).ended
        gate.touch()
        out, err = follower.communicate(timeout=30)
    assert (out, err, follower.returncode) == ("", f"err {id}\n", 0)


def test_logs_of_a_running_job_end_at_once_without_follow(fleet: Fleet) -> None:
    gate = fleet.server.folder / "peek-gate"
    id = fleet.submit("east", gate=gate)
    for chunk in fleet.client.logs(id, follow=True):
        assert chunk.data == f"out {id}\n".encode()
        break
    assert fleet.server.run("logs", "--no-follow", str(id)).stdout == f"out {id}\n"
    gate.touch()
    fleet.ended(id)


def test_a_follower_of_a_cancelled_job_gets_what_it_wrote_and_ends(fleet: Fleet) -> None:
    id = fleet.submit("east", gate=fleet.server.folder / "never")
    with fleet.begin("logs", "-f", str(id)) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == f"out {id}\n"
        fleet.client.cancel([id])
        out, _ = follower.communicate(timeout=30)
    assert (out, follower.returncode) == ("", 0)
    assert fleet.ended(id)[0].state == "cancelled"
    assert fleet.server.run("logs", "-f", str(id)).stdout == f"out {id}\n"


def test_both_streams_come_back_byte_for_byte(fleet: Fleet) -> None:
    script = r"printf 'a\000\377\033[31m\r\n'; printf 'b\302\240' >&2; exit 9"
    [job] = fleet.ended(fleet.client.submit(["/bin/sh", "-c", script]).id)
    assert job.exit_code == 9
    assert fleet.output(job.id) == b"a\x00\xff\x1b[31m\r\n"
    assert fleet.output(job.id, "stderr") == b"b\xc2\xa0"


def test_run_passes_output_and_exit_code_through(fleet: Fleet) -> None:
    done = fleet.server.run("run", "--", "/bin/sh", "-c", "echo here; echo there >&2; exit 42", check=False)
    assert (done.returncode, done.stdout) == (42, "here\n")
    assert "there\n" in done.stderr


def test_too_much_output_keeps_head_and_tail_and_marks_the_cut(fleet: Fleet) -> None:
    lines = 2_300_000  # of 8 bytes: above the cap
    script = f"seq -f %07.0f 1 {lines}"
    [job] = fleet.ended(fleet.client.submit(["/bin/sh", "-c", script]).id)
    assert job.state == "succeeded"
    kept = fleet.output(job.id)
    print(f"{lines * 8} bytes written, {len(kept)} kept")
    assert kept.startswith(b"0000001\n0000002\n")
    assert kept.endswith(f"{lines:07}\n".encode())
    head, mark, tail = re.split(rb"\n\[rainbow: (\d+) bytes were cut here\]\n", kept)
    assert int(mark) == lines * 8 - len(head) - len(tail) > 0
    assert [int(line) for line in head.split()] == list(range(1, len(head) // 8 + 1))
    assert [int(line) for line in tail.split()] == list(range(lines - len(tail) // 8 + 1, lines + 1))
    assert len(kept) < CAP + 512 * 1024
    assert fleet.server.run("logs", "--tail", "2", str(job.id)).stdout == f"{lines - 1:07}\n{lines:07}\n"
