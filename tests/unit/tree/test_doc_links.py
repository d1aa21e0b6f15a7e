"""What the guides point at exists: every relative link, every heading, and every `rainbow` command with its options."""

import re
from pathlib import Path

import click
import pytest

from rainbow_sched.cli.main import cli

ROOT = Path(__file__).resolve().parents[3]
GUIDES = sorted(
    path
    for folder in (ROOT, ROOT / "docs", ROOT / "docs/decisions", *(ROOT / "examples").glob("*"))
    for path in folder.glob("*.md")
)
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
TYPED = re.compile(r"(?:^|[;&|(]\s*|\s--\s)(?:[A-Z_]+=\S*\s+)*rainbow ((?:[a-z][a-z-]*(?:[ /]|$))+)(.*)")
PROMPT = re.compile(r"^(?:[a-z0-9@-]+)?\$ (.*(?:\\\n.*)*)", re.MULTILINE)


def named(path):
    return str(path.relative_to(ROOT))


def slug(heading):
    """As GitHub makes anchors of headings."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(text):
    return {slug(line.lstrip("#")) for line in FENCE.sub("", text).splitlines() if line.startswith("#")}


def broken_links(path, text):
    """The links of a page that lead nowhere."""
    for target in LINK.findall(FENCE.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file) if file else path
        if not there.exists() or (anchor and anchor not in anchors(there.read_text())):
            yield target


def typed_lines(text):
    """The command lines of a page: after a prompt in a block, or in backticks."""
    for block in FENCE.findall(text):
        yield from (line.replace("\\\n", " ") for line in PROMPT.findall(block))
    yield from SPAN.findall(FENCE.sub("", text))


def commands_in(text):
    """Each `rainbow ...` of a page: its words, and the options after them."""
    for line in typed_lines(text):
        for words, rest in TYPED.findall(line):
            own = re.split(r"\s--\s|\s#\s|[|;&<>]", f" {rest} ")[0]
            yield words.replace("/", " ").split(), re.findall(r"(?<=\s)--[a-z][a-z-]*", own)


def flags_of(command):
    return {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}


def unknown(words, options):
    """What of a command line does not exist: a word, or an option; None if all of it does."""
    command, at, passed_on = cli, 0, set()
    while isinstance(command, click.Group) and at < len(words):
        found = command.get_command(click.Context(command), words[at])
        if found is None:
            return None if command.invoke_without_command else words[at]
        passed_on = flags_of(command) if found.context_settings.get("ignore_unknown_options") else set()
        command, at = found, at + 1
    known = flags_of(command) | passed_on | {"--help"}
    return next((option for option in options if option not in known), None)


@pytest.mark.parametrize("path", GUIDES, ids=named)
def test_every_relative_link_leads_somewhere(path):
    assert list(broken_links(path, path.read_text())) == []


@pytest.mark.parametrize("path", GUIDES, ids=named)
def test_every_command_that_a_guide_names_exists(path):
    wrong = [
        (" ".join(words), found)
        for words, options in commands_in(path.read_text())
        if (found := unknown(words, options))
    ]
    assert wrong == []


def test_the_check_sees_what_is_wrong(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One thing\n[a](#one-thing) [b](#other) [c](gone.md) [d](https://example.org)\n")
    assert list(broken_links(page, page.read_text())) == ["#other", "gone.md"]
    text = "`rainbow sumbit x` and `rainbow jobs -a`\n```console\n$ id=$(rainbow submit --nodez 2 -- x --y)\n```\n"
    assert [unknown(*found) for found in commands_in(text)] == ["--nodez", "sumbit", None]


def test_the_index_names_every_guide():
    index = (ROOT / "docs/README.md").read_text()
    missing = [
        path.name for path in (ROOT / "docs").glob("*.md") if path.name != "README.md" and path.name not in index
    ]
    assert missing == []
