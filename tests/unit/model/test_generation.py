"""Marks of a database are written, read, sealed and held against its history."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.generation import Cause, Generation, HistoryMark, is_lost, sign_mark, verify_mark

KEY = b"k" * 32
MARKS = st.builds(
    HistoryMark, st.integers(1, 10**6), st.text("abcdef0123456789", min_size=1, max_size=24), st.integers(0, 10**15)
)


@given(MARKS)
def test_a_mark_is_read_as_it_was_written(mark: HistoryMark) -> None:
    assert HistoryMark.parse(str(mark)) == mark
    assert verify_mark(sign_mark(mark, KEY), KEY) == mark


@pytest.mark.parametrize("text", ["", "1.a", "1.a.2.3", "-1.a.2", "1.a.x", "x.a.1", "1.a." + "9" * 30, "1.a.\u0662"])
def test_other_texts_are_no_marks(text: str) -> None:
    with pytest.raises(Invalid):
        HistoryMark.parse(text)


@given(MARKS, st.text(max_size=300))
def test_a_mark_that_was_not_sealed_with_this_key_is_not_believed(mark: HistoryMark, other: str) -> None:
    sealed = sign_mark(mark, KEY)
    assert verify_mark(sealed, b"another") is None
    assert verify_mark(other, KEY) is None
    assert verify_mark(f"{mark.generation + 1}{sealed[sealed.index('.') :]}", KEY) is None


@given(st.lists(st.integers(0, 20), min_size=1, max_size=6), st.integers(0, 20), MARKS)
def test_a_history_has_lost_what_it_does_not_contain(steps: list[int], more: int, other: HistoryMark) -> None:
    """The oracle: the set of all marks that such a history ever gave out."""
    history, given_out, event = [], set(), 0
    for number, step in enumerate(steps, 1):
        history.append(Generation(number=number, id=f"g{number}", at=0.0, cause=Cause.START, after_event=event))
        event += step if number < len(steps) else more
        given_out |= {HistoryMark(number, f"g{number}", seen) for seen in range(event + 1)}
    for number in range(1, len(steps) + 2):
        for seen in range(event + 3):
            mark = HistoryMark(number, f"g{number}", seen)
            assert is_lost(mark, history, event) == (mark not in given_out)
    assert is_lost(other, history, event)
