"""Private files are written atomically with a private mode."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from rainbow_sched.client.private_files import check_private, write_whole
from rainbow_sched.model.errors import Invalid


class _PowerCut(BaseException):
    pass


@pytest.mark.parametrize("step", ["fchmod", "fsync", "replace"])
def test_a_crash_at_any_step_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "secret"
    write_whole(path, b"old")

    def cut(*_: object) -> None:
        raise _PowerCut

    with monkeypatch.context() as patch:
        patch.setattr(os, step, cut)
        with pytest.raises(_PowerCut):
            write_whole(path, b"new")
    assert path.read_bytes() == b"old"


def test_what_was_written_outlives_a_power_cut_with_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced, real = [], os.fsync

    def fsync(handle: int) -> None:
        synced.append(stat.S_ISDIR(os.fstat(handle).st_mode))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    write_whole(tmp_path / "secret", b"new")
    assert synced == [False, True], "the file, then its folder"


def test_it_is_the_owners_alone_also_where_others_could_read_it_before(tmp_path: Path) -> None:
    path = tmp_path / "new" / "secret"
    write_whole(path, b"x")
    check_private(path)
    path.chmod(0o644)
    with pytest.raises(Invalid, match="chmod 600"):
        check_private(path)
    write_whole(path, b"y")
    check_private(path)
    with pytest.raises(Invalid, match="cannot read"):
        check_private(tmp_path / "none")
