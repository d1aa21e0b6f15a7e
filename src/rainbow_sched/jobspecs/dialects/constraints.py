"""Convert RFC 31 constraints (properties, hostlist, and, or, not) as far as a request can express them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rainbow_sched.jobspecs.reading.fields import Entry, located
from rainbow_sched.model.errors import Invalid, TooLarge
from rainbow_sched.model.hostlist import expand

MAX_HOSTS = 20_000  # of one constraint; bounds the memory of a request
_UNSUPPORTED = "a request cannot express this combination"


@dataclass(frozen=True, slots=True)
class Constraint:
    """Properties that every host must have, and the hosts that may (None: any) and may not be used."""

    properties: tuple[str, ...] = ()
    hosts: tuple[str, ...] | None = None
    not_hosts: tuple[str, ...] = ()

    @property
    def only_hosts(self) -> bool:
        """True if the constraint only lists hosts that may be used."""
        return self.hosts is not None and not self.properties and not self.not_hosts

    def both(self, other: Constraint) -> Constraint:
        """Return the conjunction with another constraint."""
        hosts = self.hosts if other.hosts is None else other.hosts
        if self.hosts is not None and other.hosts is not None:
            others = frozenset(other.hosts)
            hosts = tuple(host for host in self.hosts if host in others)
        return Constraint(_unique(self.properties + other.properties), hosts, _unique(self.not_hosts + other.not_hosts))


def parse_constraint(entry: Entry) -> Constraint:
    """Parse a constraint; raise `Invalid` with the part that a request cannot express."""
    return _ConstraintParser().constraint(entry)


class _ConstraintParser:
    """Parses one constraint; its parts together may name MAX_HOSTS hosts."""

    def __init__(self) -> None:
        self._hosts_left = MAX_HOSTS
        self._readers = {
            "properties": self._properties,
            "hostlist": self._hostlist,
            "ranks": self._ranks,
            "and": self._and,
            "or": self._or,
            "not": self._not,
        }

    def constraint(self, entry: Entry) -> Constraint:
        """Return the conjunction of all operators of one object."""
        found = Constraint()
        for operator, values in entry.keys(self._readers).items():
            found = found.both(self._readers[operator](values))
        if found.hosts is not None and not set(found.hosts) - set(found.not_hosts):
            raise entry.error("this constraint excludes every host")
        return found

    def _properties(self, entry: Entry) -> Constraint:
        names = tuple(item.text() for item in entry.items())
        if any(name == "^" for name in names):
            raise entry.error("the name of a property is missing after ^")
        return Constraint(properties=_unique(names))

    def _hostlist(self, entry: Entry) -> Constraint:
        hosts: list[str] = []
        for item in entry.items():
            with located(item.path):
                found = parse_hosts(item.text(), self._hosts_left)
            self._hosts_left -= len(found)
            hosts.extend(found)
        return Constraint(hosts=_unique(hosts))

    def _ranks(self, entry: Entry) -> Constraint:
        raise entry.error("ranks are valid only inside one Flux instance; use hostlist instead")

    def _and(self, entry: Entry) -> Constraint:
        found = Constraint()
        for item in entry.items():
            found = found.both(self.constraint(item))
        return found

    def _or(self, entry: Entry) -> Constraint:
        """Return the union of hostlists; other alternatives are not supported."""
        parts = [self.constraint(item) for item in entry.items()]
        if len(parts) <= 1:
            return parts[0] if parts else Constraint()
        if all(part.only_hosts for part in parts):
            return Constraint(hosts=_unique(host for part in parts for host in part.hosts or ()))
        raise entry.error(f"{_UNSUPPORTED}: only hostlists can be alternatives")

    def _not(self, entry: Entry) -> Constraint:
        """Return the negation of a hostlist or of one property."""
        items = entry.items()
        if len(items) != 1:
            raise entry.error("'not' must have one constraint")
        part = self.constraint(items[0])
        if part.only_hosts:
            return Constraint(not_hosts=part.hosts or ())
        if part.not_hosts and part == Constraint(not_hosts=part.not_hosts):
            return Constraint(hosts=part.not_hosts)
        if len(part.properties) == 1 and part == Constraint(properties=part.properties):
            name = part.properties[0]
            return Constraint(properties=(name[1:] if name.startswith("^") else f"^{name}",))
        raise entry.error(f"{_UNSUPPORTED}: 'not' takes a hostlist or one property")


def parse_hosts(text: str, left: int = MAX_HOSTS) -> tuple[str, ...]:
    """Return the hosts of a hostlist without duplicates; raise TooLarge for more than `left`."""
    if any(letter.isspace() for letter in text):
        raise Invalid(f"{text[:40]!r} is not a hostlist; write for example node[1-3,7]")
    try:
        return _unique(name for name in expand(text, limit=left) if name)
    except TooLarge:
        raise TooLarge(f"a request names at most {MAX_HOSTS} hosts") from None


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def to_constraint(properties: Iterable[str], hosts: Iterable[str], not_hosts: Iterable[str]) -> dict[str, object]:
    """Return the RFC 31 object; empty without constraints."""
    parts: list[dict[str, object]] = []
    if names := list(properties):
        parts.append({"properties": names})
    if names := list(hosts):
        parts.append({"hostlist": [",".join(names)]})
    if names := list(not_hosts):
        parts.append({"not": [{"hostlist": [",".join(names)]}]})
    return parts[0] if len(parts) == 1 else {"and": parts} if parts else {}
