"""The journal keeps what it was told, through crashes, and refuses to guess."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.agent.core.journal_records import compacted, restored
from rainbow_sched.agent.runtime.journal import Journal, line, parse
from rainbow_sched.model.errors import Conflict, Corrupt
from tests.unit.agent.agent_world import World

RECORDS = [{"kind": "offer", "n": i, "text": "ü\n" * i} for i in range(4)]


def test_what_was_written_is_read_back(tmp_path):
    with Journal(tmp_path) as journal:
        assert journal.fresh
        journal.append(RECORDS)
    with Journal(tmp_path) as journal:
        assert not journal.fresh
        assert journal.records[1:] == RECORDS
        assert journal.truncated == 0


def test_a_journal_keeps_its_id_over_restarts_and_compaction(tmp_path):
    with Journal(tmp_path) as journal:
        first = journal.id
        journal.compact(RECORDS)
        journal.append(RECORDS)
    with Journal(tmp_path) as journal:
        assert journal.id == first
        assert journal.records[1:] == RECORDS + RECORDS


@given(cut=st.integers(1, len(line(RECORDS[3]))))
def test_a_last_line_cut_short_is_dropped_and_reported(cut):
    good = b"".join(map(line, RECORDS[:3]))
    records, kept = parse((good + line(RECORDS[3]))[:-cut], "journal")
    assert (records, kept) == (RECORDS[:3], len(good))


def test_a_cut_tail_is_removed_before_anything_is_appended(tmp_path):
    with Journal(tmp_path) as journal:
        journal.append(RECORDS)
        path = journal.path
    os.truncate(path, path.stat().st_size - 3)
    with Journal(tmp_path) as journal:
        assert journal.truncated > 0
        journal.append([{"kind": "after"}])
    with Journal(tmp_path) as journal:
        assert journal.records[1:] == [*RECORDS[:3], {"kind": "after"}]


@given(at=st.integers(0, len(line(RECORDS[0])) - 2), bit=st.integers(0, 7))
@settings(max_examples=100)
def test_a_damaged_line_with_good_ones_after_it_is_refused_and_named(at, bit):
    data = bytearray(b"".join(map(line, RECORDS)))
    data[at] ^= 1 << bit
    try:
        records, _ = parse(bytes(data), "journal")
    except Corrupt as error:
        refused = str(error)
        records = RECORDS
    else:
        refused = "line 1"
    assert "line 1" in refused
    assert records == RECORDS, "a changed line was believed"  # e.g. the checksum's letters in upper case


def test_a_journal_is_compacted_again_only_when_it_has_doubled(tmp_path, monkeypatch):
    monkeypatch.setattr("rainbow_sched.agent.runtime.journal.COMPACT_ABOVE_BYTES", 100)
    many = RECORDS * 20
    with Journal(tmp_path) as journal:
        journal.append(many)
        assert journal.is_long
        journal.compact(many)
        assert not journal.is_long
        journal.append(many)
        journal.append(many)
        assert journal.is_long


def test_two_agents_cannot_share_a_state_directory(tmp_path):
    with Journal(tmp_path), pytest.raises(Conflict, match=f"process {os.getpid()}"):
        Journal(tmp_path)
    Journal(tmp_path).close()


def test_a_write_that_fails_leaves_the_journal_as_it_was(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    with Journal(tmp_path) as journal:
        journal.append(RECORDS[:2])
        with monkeypatch.context() as patched:
            patched.setattr(os, "fdatasync", full)
            with pytest.raises(OSError, match="No space"):
                journal.append(RECORDS[2:])
        journal.append([{"kind": "after"}])
    with Journal(tmp_path) as journal:
        assert journal.records[1:] == [*RECORDS[:2], {"kind": "after"}]


@given(st.lists(st.integers(0, 2**16), min_size=20, max_size=150))
@settings(max_examples=60, deadline=None)
def test_a_compacted_journal_leads_to_the_same_place(choices):
    world = World(choices)
    while not world.over:
        world.step()
    held, past = restored(world.disk)
    assert restored(compacted(held.values(), past, "")) == (held, past)
