"""The mark file is always complete, and never ahead of the committed events."""

from __future__ import annotations

from pathlib import Path

import pytest

from rainbow_sched.model.generation import Cause, Generation, HistoryMark
from rainbow_sched.store.mark_file import FILE_NAME, MarkFile, read_mark

GENERATION = Generation(number=3, id="abc", at=1.0, cause=Cause.START, after_event=7)


def test_the_newest_mark_is_read_back_whatever_its_length(tmp_path: Path) -> None:
    marks = MarkFile(tmp_path)
    marks.begin(GENERATION, 7)
    assert read_mark(tmp_path) == HistoryMark(3, "abc", 7)
    for event in (8, 10**15, 9):
        marks.advance(event)
        assert read_mark(tmp_path) == HistoryMark(3, "abc", event)
    marks.close()
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o077 == 0


def test_events_before_the_generation_is_known_leave_the_last_mark_as_it_is(tmp_path: Path) -> None:
    first = MarkFile(tmp_path)
    first.begin(GENERATION, 7)
    first.close()
    MarkFile(tmp_path).advance(8)
    assert read_mark(tmp_path) == HistoryMark(3, "abc", 7)


def test_a_folder_without_a_mark_has_none(tmp_path: Path) -> None:
    assert read_mark(tmp_path) is None


@pytest.mark.parametrize("text", [b"", b"\xff\xfe", b"3.abc", b"x.abc.7", b"3.abc.7" * 100])
def test_a_damaged_mark_is_logged_and_does_not_stop_the_server(
    tmp_path: Path, text: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE_NAME).write_bytes(text)
    assert read_mark(tmp_path) is None
    assert "is not checked" in caplog.text


def test_a_folder_that_is_not_writable_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / FILE_NAME).mkdir()
    marks = MarkFile(tmp_path)
    marks.begin(GENERATION, 7)
    marks.advance(8)
    marks.close()
    assert caplog.text.count("cannot write") == 1
