"""Constraints by RFC 31 (properties, hostlist, and, or, not) as far as a request can say them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rainbow_sched.jobspecs.reading.fields import At
from rainbow_sched.model.errors import Invalid, TooLarge
from rainbow_sched.model.hostlist import expand

MAX_HOSTS = 20_000
OPERATORS = ("properties", "hostlist", "ranks", "and", "or", "not")
_MORE = "this combination cannot be said in a request"


@dataclass(frozen=True, slots=True)
class Constraint:
    """What every host must carry, and which hosts may (None: any) and may not be used."""

    properties: tuple[str, ...] = ()
    hosts: tuple[str, ...] | None = None
    not_hosts: tuple[str, ...] = ()

    @property
    def only_hosts(self) -> bool:
        """True if all it says is which hosts may be used."""
        return self.hosts is not None and not self.properties and not self.not_hosts

    def both(self, other: Constraint) -> Constraint:
        """All of this and all of the other."""
        hosts = self.hosts if other.hosts is None else other.hosts
        if self.hosts is not None and other.hosts is not None:
            wanted = frozenset(other.hosts)
            hosts = tuple(host for host in self.hosts if host in wanted)
        return Constraint(_once(self.properties + other.properties), hosts, _once(self.not_hosts + other.not_hosts))


def parse_constraint(at: At) -> Constraint:
    """Read a constraint; raise `Invalid` naming the part that a request cannot express."""
    return _Reader().constraint(at)


class _Reader:
    """Reads one constraint with all its parts, which together may name so many hosts and no more."""

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

    def constraint(self, at: At) -> Constraint:
        """All operators of one object hold."""
        found = Constraint()
        for operator, values in at.keys(OPERATORS).items():
            found = found.both(self._readers[operator](values))
        if found.hosts is not None and not set(found.hosts) - set(found.not_hosts):
            raise at.refuse("no host is left by this constraint")
        return found

    def _properties(self, at: At) -> Constraint:
        names = tuple(item.text() for item in at.items())
        if any(name == "^" for name in names):
            raise at.refuse("a property's name is missing after ^")
        return Constraint(properties=_once(names))

    def _hostlist(self, at: At) -> Constraint:
        hosts: list[str] = []
        for item in at.items():
            try:
                found = named_hosts(item.text(), self._hosts_left)
            except Invalid as error:
                raise type(error)(error.what, where=item.path) from None
            self._hosts_left -= len(found)
            hosts.extend(found)
        return Constraint(hosts=_once(hosts))

    def _ranks(self, at: At) -> Constraint:
        raise at.refuse("ranks belong to one Flux instance; name hosts with hostlist instead")

    def _and(self, at: At) -> Constraint:
        found = Constraint()
        for item in at.items():
            found = found.both(self.constraint(item))
        return found

    def _or(self, at: At) -> Constraint:
        """Alternatives: only hostlists add up, and one alternative is no choice."""
        parts = [self.constraint(item) for item in at.items()]
        if len(parts) <= 1:
            return parts[0] if parts else Constraint()
        if all(part.only_hosts for part in parts):
            return Constraint(hosts=_once(host for part in parts for host in part.hosts or ()))
        raise at.refuse(f"{_MORE}: alternatives are possible between hostlists only")

    def _not(self, at: At) -> Constraint:
        """Negation of a hostlist or of one property; `not` of nothing matches nothing."""
        items = at.items()
        if len(items) != 1:
            raise at.refuse("'not' takes one constraint")
        part = self.constraint(items[0])
        if part.only_hosts:
            return Constraint(not_hosts=part.hosts or ())
        if part.not_hosts and part == Constraint(not_hosts=part.not_hosts):
            return Constraint(hosts=part.not_hosts)
        if len(part.properties) == 1 and part == Constraint(properties=part.properties):
            name = part.properties[0]
            return Constraint(properties=(name[1:] if name.startswith("^") else f"^{name}",))
        raise at.refuse(f"{_MORE}: 'not' takes a hostlist or one property")


def named_hosts(text: str, left: int = MAX_HOSTS) -> tuple[str, ...]:
    """The hosts of a hostlist, each once; at most `left` may be written."""
    if any(letter.isspace() for letter in text):
        raise Invalid(f"{text[:40]!r} is not a hostlist; write for example node[1-3,7]")
    try:
        return _once(name for name in expand(text, limit=left) if name)
    except TooLarge:
        raise TooLarge(f"a request names at most {MAX_HOSTS} hosts") from None


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def as_constraint(properties: Iterable[str], hosts: Iterable[str], not_hosts: Iterable[str]) -> dict[str, object]:
    """The RFC 31 object that says the same; empty if there is nothing to say."""
    parts: list[dict[str, object]] = []
    if listed := list(properties):
        parts.append({"properties": listed})
    if listed := list(hosts):
        parts.append({"hostlist": [",".join(listed)]})
    if listed := list(not_hosts):
        parts.append({"not": [{"hostlist": [",".join(listed)]}]})
    return parts[0] if len(parts) == 1 else {"and": parts} if parts else {}
