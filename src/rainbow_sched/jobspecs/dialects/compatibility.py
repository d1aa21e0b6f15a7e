"""Convert an image's compatibility document (kind CompatibilitySpec) into requirements on subsystems.

Rules map attributes to subsystem fields; a site can add or replace rules (see `read_rules`).
Attributes without a rule are reported.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace

from rainbow_sched.documents.reader import read
from rainbow_sched.jobspecs.dialects.draft import RequestDraft, check_requirements
from rainbow_sched.jobspecs.dialects.requirements import read_bound
from rainbow_sched.jobspecs.reading.fields import Entry, required
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.request import Equals, Request, Requirement, Runs, Scalar, Term, Within

KIND = "CompatibilitySpec"
_TOP = ("version", "kind", "metadata", "compatibilities")
_ENTRY = ("name", "version", "attributes", "annotations")


class Comparison(enum.StrEnum):
    """How the value of an attribute constrains a subsystem field."""

    EQUALS = "equals"
    AT_LEAST = "at least"
    RUNS = "runs"
    WHEN_TRUE = "when true"  # `yes` requires it, `no` requires nothing


@dataclass(frozen=True, slots=True)
class AttributeRule:
    """The subsystem field that an attribute constrains."""

    subsystem: str
    field: str
    how: Comparison = Comparison.EQUALS


DEFAULT_RULES: Mapping[str, AttributeRule] = {
    "io.archspec/cpu.target": AttributeRule("arch", "target", Comparison.RUNS),
    "io.archspec/cpu.vendor": AttributeRule("arch", "vendor"),
    "io.archspec/cpu.model": AttributeRule("arch", "model"),
    "org.supercontainers/mpi.implementation": AttributeRule("mpi", "implementation"),
    "org.supercontainers/mpi.version": AttributeRule("mpi", "version"),
    "org.supercontainers/os.name": AttributeRule("os", "name"),
    "org.supercontainers/os.version": AttributeRule("os", "version"),
    "org.supercontainers/os.vendor": AttributeRule("os", "vendor"),
    "org.supercontainers/os.release": AttributeRule("os", "release"),
    "org.supercontainers/hardware.gpu.available": AttributeRule("hardware", "gpu.available", Comparison.WHEN_TRUE),
}


def read_rules(text: str) -> dict[str, AttributeRule]:
    """Add a site's rules, `NAMESPACE/ATTRIBUTE: {subsystem: ..., field: ..., how: equals}`, to the default rules."""
    document = read(text)
    try:
        rules = {name: _read_rule(name, entry) for name, entry in Entry(document.data).keys().items()}
    except Invalid as error:
        raise document.with_line(error) from None
    return {**DEFAULT_RULES, **rules}


def _read_rule(name: str, entry: Entry) -> AttributeRule:
    keys = entry.keys(("subsystem", "field", "how"))
    if "/" not in name:
        raise entry.error(f"{name[:60]!r} must be NAMESPACE/ATTRIBUTE, such as org.supercontainers/mpi.version")
    how = keys["how"].text() if "how" in keys else Comparison.EQUALS.value
    if how not in list(Comparison):
        raise keys["how"].error(f"{how[:40]!r} is not one of {', '.join(Comparison)}")
    return AttributeRule(
        required(keys, "subsystem", entry).text(), required(keys, "field", entry).text(), Comparison(how)
    )


def with_compatibility(request: Request, text: str, *, rules: Mapping[str, AttributeRule] = DEFAULT_RULES) -> Request:
    """Return the request with the requirements of the compatibility document `text` on each node."""
    document = read(text)
    draft = RequestDraft(groups=list(request.groups), ignored=list(request.ignored))
    try:
        apply_compatibility(Entry(document.data), draft, rules)
    except Invalid as error:
        raise document.with_line(error) from None
    check_requirements(draft.groups)
    return replace(request, groups=tuple(draft.groups), ignored=tuple(draft.ignored))


def apply_compatibility(entry: Entry, draft: RequestDraft, rules: Mapping[str, AttributeRule] = DEFAULT_RULES) -> None:
    """Add the requirements of the document to all nodes of the draft."""
    entries = entry.keys(_TOP)
    kind = required(entries, "kind", entry)
    if kind.value != KIND:
        raise kind.error(f"the kind of a compatibility document must be {KIND}, not {str(kind.value)[:40]!r}")
    terms: dict[str, list[Term]] = {}
    for item in required(entries, "compatibilities", entry).items():
        keys = item.keys(_ENTRY)
        namespace = required(keys, "name", item).text()
        for key, value in (keys["attributes"].keys() if "attributes" in keys else {}).items():
            rule = rules.get(f"{namespace}/{key}")
            if rule is None:
                draft.note(value, f"no rule says what {namespace}/{key}={value.scalar()} asks of a cluster")
                continue
            term = _term(rule, value.scalar(), value)
            if term is None:
                draft.note(value, f"{namespace}/{key}={value.value} asks for nothing")
            else:
                terms.setdefault(rule.subsystem, []).append(term)
    draft.require({"": [Requirement(subsystem, tuple(found)) for subsystem, found in terms.items()]})


def _term(rule: AttributeRule, value: Scalar, entry: Entry) -> Term | None:
    if rule.how is Comparison.RUNS:
        return Runs(rule.field, entry.text())
    if rule.how is Comparison.AT_LEAST:
        return Within(rule.field, min=read_bound(entry))
    if rule.how is Comparison.WHEN_TRUE and str(value).lower() in ("no", "false", "0"):
        return None
    return Equals(rule.field, value)
