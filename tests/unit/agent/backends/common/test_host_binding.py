"""The check in sh reads hostlists as the rest of Rainbow does, and names what is not allowed."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.agent.backends.common.host_binding import FUNCTIONS, allowed_words
from rainbow_sched.model.hostlist import collapse, expand

SHELLS = [words for words in (("dash",), ("bash", "--posix"), ("sh",)) if shutil.which(words[0])]
NAMES = st.from_regex(r"[a-z][a-z0-9.-]{0,6}", fullmatch=True)


def run(shell: tuple[str, ...], text: str, *words: str) -> str:
    done = subprocess.run(
        [*shell, "-c", FUNCTIONS + text, "x", *words], capture_output=True, text=True, timeout=30, check=True
    )
    assert not done.stderr
    return done.stdout


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
@pytest.mark.parametrize("text", ["n1", "n[1-3,07-10],b", "a[0-1]x[2-3]y,q-1,z[08,010]", "r1n[098-101]", "n[0-0]"])
def test_every_shell_reads_a_hostlist_as_we_do(shell: tuple[str, ...], text: str):
    assert sorted(run(shell, 'rb_names "$1"', text).split()) == sorted(expand(text))


@settings(max_examples=40, deadline=None)
@given(got=st.lists(NAMES, max_size=6, unique=True), allowed=st.lists(NAMES, max_size=6, unique=True))
def test_what_is_not_allowed_is_named_and_nothing_else(got: list[str], allowed: list[str]):
    said = run(SHELLS[0], f'rb_outside "$1" {allowed_words(allowed)}', collapse(got) or "")
    assert said.split() == ([name for name in got if name not in allowed] if got else ["?"])
