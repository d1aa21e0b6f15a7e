"""Closed and full streams, folders that cannot be written, and arguments that are not text."""

import os
import subprocess
import sys

import pytest


def shell(line, **environment):
    """One line of shell in which `$rainbow` is the program."""
    script = f'rainbow() {{ "{sys.executable}" -c "from rainbow_sched.cli.main import main; main()" "$@"; }}; {line}'
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=False, timeout=60, env=os.environ | environment
    )
    assert "Traceback" not in done.stderr
    return done


def test_a_reader_that_leaves_ends_the_program_as_a_signal_would():
    done = shell(
        "rainbow plugins -o '{name:>100000}' | head -c 5 >/dev/null; exit ${PIPESTATUS[0]}", PYTHONUNBUFFERED=""
    )
    assert (done.returncode, done.stderr) == (141, "")


def test_a_closed_stdout_is_no_failure_and_a_closed_stderr_does_not_speak_on_stdout():
    assert shell("rainbow plugins >&-").returncode == 0
    done = shell("rainbow config init 2>&-")
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_cannot_be_written_is_reported(unbuffered):
    done = shell("rainbow plugins >/dev/full", PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr) == (1, "rainbow: cannot use the output: No space left on device\n")


@pytest.mark.parametrize(
    "args",
    [
        ["config", "init", "--config-path", "file/x.yaml"],
        ["server", "--data-dir", "file/data", "--listen", "127.0.0.1:0"],
        ["server", "init", "--data-dir", "file/data"],
        ["key", "create", "--key", "file/key"],
    ],
    ids=lambda args: " ".join(args[:2]),
)
def test_a_place_that_cannot_be_written_is_named(rainbow, tmp_path, args):
    (tmp_path / "file").write_text("in the way")
    done = rainbow(*args)
    assert done.code in (1, 2)
    assert "file" in done.err
    assert "Not a directory" in done.err or "File exists" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("args", [["submit", "--name", "\udcff", "--", "true"], ["jobs", "\udcff"], ["\udcff"]])
def test_bytes_that_are_no_text_are_refused(rainbow, args):
    done = rainbow(*args)
    assert done.code == 2
    assert r"b'\xff' is not UTF-8 text" in done.err
