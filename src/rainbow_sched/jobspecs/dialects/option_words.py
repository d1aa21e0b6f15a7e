"""Words of a command line or a script's directive into named options, by a table of known ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rainbow_sched.model.errors import Invalid


@dataclass(frozen=True, slots=True)
class Grammar:
    """Which letters stand for which names, and which names take no value."""

    letters: Mapping[str, str]
    switches: frozenset[str]
    names: frozenset[str]  # every known long name


@dataclass(frozen=True, slots=True)
class Option:
    """One option as it was written; `known` says whether the grammar has it."""

    name: str
    value: str
    known: bool

    def __str__(self) -> str:
        return f"--{self.name}={self.value}" if self.value else f"--{self.name}"


def read_options(words: Sequence[str], grammar: Grammar, where: str) -> Iterator[Option]:
    """Each option of `words`: `-N4`, `-N 4`, `--nodes=4`, `--nodes 4`, and letters without values."""
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if word.startswith("--") and len(word) > 2:
            name, separator, value = word[2:].partition("=")
        elif word.startswith("-") and len(word) > 1 and not word.startswith("--"):
            name, value = grammar.letters.get(word[1], word[1]), word[2:]
            separator = value
            if value and name in grammar.switches:
                raise Invalid(f"-{word[1]} takes no value", where=where)
        else:
            raise Invalid(f"{word[:40]!r} is not an option", where=where)
        known = name in grammar.names
        follows = index < len(words) and not words[index].startswith("-")
        if not separator and name not in grammar.switches and follows:
            value = words[index]
            index += 1
        elif not separator and known and name not in grammar.switches:
            raise Invalid(f"--{name} needs a value", where=where)
        yield Option(name, value, known)
