"""Cleaned text contains no control sequences, wherever it is split."""

import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.cli.render.terminal import Cleaner, clean, one_line, width

NASTY = st.text(
    alphabet=st.sampled_from(
        "\x1b\x9b\x9d\x9c\x07[]\\0;m?P^_X(HhA\r\n\t\x08\x00\x7fab ü中\u202e\u2066\u200f\ufeff\x85\ud800"
    ),
    max_size=40,
)

TAGS = "".join(map(chr, range(0xE0000, 0xE0080)))  # invisible, and of no language; not all of them are assigned
PLAIN = st.characters(exclude_categories=["Cc", "Cs", "Cf"], exclude_characters=TAGS)


def dangerous(char):
    """The slow, obvious rule: nothing that is control, format-directional, or half a character."""
    if char in "\n\t":
        return False
    category = unicodedata.category(char)
    return category in ("Cc", "Cs") or unicodedata.bidirectional(char) in (
        *("LRE", "RLE", "LRO", "RLO", "PDF"),
        *("LRI", "RLI", "FSI", "PDI"),
    )


@settings(max_examples=300)
@given(text=NASTY | st.text(max_size=40))
def test_nothing_dangerous_survives(text):
    assert [char for char in clean(text) if dangerous(char)] == []


@settings(max_examples=300)
@given(text=st.text(alphabet=PLAIN, max_size=60))
def test_plain_text_of_any_language_stays_as_it_is(text):
    assert clean(text) == text


@settings(max_examples=500)
@given(text=NASTY, data=st.data())
def test_it_does_not_matter_where_the_text_is_cut(text, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    cleaner = Cleaner()
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert "".join(map(cleaner.feed, pieces)) + cleaner.finish() == clean(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;owned\x07title", "title"),
        ("\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\", "click"),
        ("\x9b2Jgone", "gone"),
        ("a\rb\r\nc", "a\nb\nc"),
        ("\x1b(0lqk", "lqk"),
        ("user\u202egpj.exe", "usergpj.exe"),
        ("tab\tstays\n", "tab\tstays\n"),
    ],
)
def test_whole_sequences_disappear(text, shown):
    assert clean(text) == shown


def test_an_endless_sequence_does_not_hide_output():
    assert clean("\x1b]0;" + "x" * 1000 + "\x07") == "]0;" + "x" * 1000


def test_a_name_stays_on_one_line():
    assert one_line("a\nb\t c\x1b[2J") == "a b c"


def test_wide_and_combining_characters_are_counted_as_they_are_shown():
    assert (width("abc"), width("中文"), width("e\u0301")) == (3, 4, 1)


def test_the_pattern_for_plain_text_lets_no_control_through():
    assert re.fullmatch(r"[ -~\t\n]*", clean("".join(map(chr, range(128)))))
