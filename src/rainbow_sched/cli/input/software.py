"""Parse `--software 'lammps@>=2024 +kokkos'` to a requirement on the subsystem `software`.

| syntax | requires of one vertex of the subsystem |
|---|---|
| `lammps` | field `name` = lammps |
| `@2024.1` | field `version` = 2024.1 |
| `@>=2024`, `@<=3`, `@1.2:1.4`, `@1.2:`, `@:1.4` | field `version` in this inclusive range |
| `+kokkos`, `~mpi` | field `kokkos` = true, field `mpi` = false |
| `arch=zen3` | field `arch` = zen3 |
"""

from __future__ import annotations

import re

from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.request import Equals, Requirement, Term, Within
from rainbow_sched.model.versions import is_version

SUBSYSTEM = "software"
_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:@(.+))?")
_VARIANT = re.compile(r"([+~])([A-Za-z0-9_][A-Za-z0-9._-]*)")


def requirement(text: str) -> Requirement:
    """Return the requirement; one vertex must meet all of it."""
    words = text.replace("+", " +").replace("~", " ~").split()
    matched = _NAME.fullmatch(words[0]) if words else None
    if matched is None:
        raise Invalid(
            "write a name, optionally with a version and variants: 'lammps@>=2024 +kokkos'", where=f"{text!r}"
        )
    terms: list[Term] = [Equals("name", matched[1])]
    if matched[2]:
        terms.append(_version(matched[2], text))
    for word in words[1:]:
        variant = _VARIANT.fullmatch(word)
        key, separator, value = word.partition("=")
        if variant:
            terms.append(Equals(variant[2], variant[1] == "+"))
        elif separator and key and value:
            terms.append(Equals(key, value))
        else:
            raise Invalid(f"{word!r} is neither +variant, ~variant nor key=value", where=f"{text!r}")
    return Requirement(SUBSYSTEM, tuple(terms))


def _version(version: str, text: str) -> Term:
    if version.startswith(">="):
        return _range(_bare(version[2:], text), None, text)
    if version.startswith("<="):
        return _range(None, _bare(version[2:], text), text)
    if ":" in version:
        least, _, most = version.partition(":")
        return _range(least or None, most or None, text)
    return Equals("version", _bare(version.removeprefix("="), text))


def _range(least: str | None, most: str | None, text: str) -> Within:
    for bound in filter(None, (least, most)):
        if not is_version(bound):
            raise Invalid(
                f"{bound[:40]!r} is not a version, which begins with a digit, or v and a digit; "
                "to require exactly this text, write @ without >=, <= or :",
                where=f"{text!r}",
            )
    return Within("version", min=least, max=most)


def _bare(version: str, text: str) -> str:
    if not version or version[0] in "<>=@":
        raise Invalid("write a version as @2024, @>=2024, @<=3 or @1.2:1.4", where=f"{text!r}")
    return version
