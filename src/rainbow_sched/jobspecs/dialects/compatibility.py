"""An image's compatibility document (kind CompatibilitySpec) into requirements on subsystems, by a table.

The table is data: a site adds rows of its own, or replaces some, by a document that `read_table` reads.
What has no row is reported, never dropped.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace

from rainbow_sched.jobspecs.dialects.draft import Draft, check_requirements
from rainbow_sched.jobspecs.dialects.requirements import read_bound
from rainbow_sched.jobspecs.reading.documents import read
from rainbow_sched.jobspecs.reading.fields import At, need
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.request import Equals, Request, Requirement, Runs, Scalar, Term, Within

KIND = "CompatibilitySpec"
_TOP = ("version", "kind", "metadata", "compatibilities")
_ENTRY = ("name", "version", "attributes", "annotations")


class How(enum.StrEnum):
    """What an attribute's value asks of the field it is mapped to."""

    EQUALS = "equals"
    AT_LEAST = "at least"
    RUNS = "runs"
    WHEN_TRUE = "when true"  # `yes` asks for it, `no` asks for nothing


@dataclass(frozen=True, slots=True)
class Mapped:
    """Where an attribute of the document is found in a cluster's subsystems."""

    subsystem: str
    field: str
    how: How = How.EQUALS


TABLE: Mapping[str, Mapped] = {
    "io.archspec/cpu.target": Mapped("arch", "target", How.RUNS),
    "io.archspec/cpu.vendor": Mapped("arch", "vendor"),
    "io.archspec/cpu.model": Mapped("arch", "model"),
    "org.supercontainers/mpi.implementation": Mapped("mpi", "implementation"),
    "org.supercontainers/mpi.version": Mapped("mpi", "version"),
    "org.supercontainers/os.name": Mapped("os", "name"),
    "org.supercontainers/os.version": Mapped("os", "version"),
    "org.supercontainers/os.vendor": Mapped("os", "vendor"),
    "org.supercontainers/os.release": Mapped("os", "release"),
    "org.supercontainers/hardware.gpu.available": Mapped("hardware", "gpu.available", How.WHEN_TRUE),
}


def read_table(text: str) -> dict[str, Mapped]:
    """TABLE with a site's own rows: `NAMESPACE/ATTRIBUTE: {subsystem: ..., field: ..., how: equals}`."""
    document = read(text)
    try:
        rows = {name: _row(name, at) for name, at in At(document.data).keys().items()}
    except Invalid as error:
        raise document.placed(error) from None
    return {**TABLE, **rows}


def _row(name: str, at: At) -> Mapped:
    keys = at.keys(("subsystem", "field", "how"))
    if "/" not in name:
        raise at.refuse(f"{name[:60]!r} is no NAMESPACE/ATTRIBUTE such as org.supercontainers/mpi.version")
    how = keys["how"].text() if "how" in keys else How.EQUALS.value
    if how not in list(How):
        raise keys["how"].refuse(f"{how[:40]!r} is not one of {', '.join(How)}")
    return Mapped(need(keys, "subsystem", at).text(), need(keys, "field", at).text(), How(how))


def with_compatibility(request: Request, text: str, *, table: Mapping[str, Mapped] = TABLE) -> Request:
    """The request with what the compatibility document `text` asks of each node."""
    document = read(text)
    draft = Draft(groups=list(request.groups), notes=list(request.ignored))
    try:
        apply_compatibility(At(document.data), draft, table)
    except Invalid as error:
        raise document.placed(error) from None
    check_requirements(draft.groups)
    return replace(request, groups=tuple(draft.groups), ignored=tuple(draft.notes))


def apply_compatibility(at: At, draft: Draft, table: Mapping[str, Mapped] = TABLE) -> None:
    """Add the document's requirements to every node that the draft asks for."""
    draft.require({"": _requirements(at, draft, table)})


def _requirements(at: At, draft: Draft, table: Mapping[str, Mapped]) -> tuple[Requirement, ...]:
    entries = at.keys(_TOP)
    kind = need(entries, "kind", at)
    if kind.value != KIND:
        raise kind.refuse(f"a compatibility document is of kind {KIND}, not {str(kind.value)[:40]!r}")
    terms: dict[str, list[Term]] = {}
    for entry in need(entries, "compatibilities", at).items():
        keys = entry.keys(_ENTRY)
        namespace = need(keys, "name", entry).text()
        for key, value in (keys["attributes"].keys() if "attributes" in keys else {}).items():
            row = table.get(f"{namespace}/{key}")
            if row is None:
                draft.note(value, f"no rule says what {namespace}/{key}={value.scalar()} asks of a cluster")
                continue
            term = _term(row, value.scalar(), value)
            if term is None:
                draft.note(value, f"{namespace}/{key}={value.value} asks for nothing")
            else:
                terms.setdefault(row.subsystem, []).append(term)
    return tuple(Requirement(subsystem, tuple(found)) for subsystem, found in terms.items())


def _term(row: Mapped, value: Scalar, at: At) -> Term | None:
    if row.how is How.RUNS:
        return Runs(row.field, at.text())
    if row.how is How.AT_LEAST:
        return Within(row.field, min=read_bound(at))
    if row.how is How.WHEN_TRUE and str(value).lower() in ("no", "false", "0"):
        return None
    return Equals(row.field, value)
