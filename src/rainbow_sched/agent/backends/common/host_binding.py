"""Restrict a job to its allowed hosts, by the names that the manager knows, and check its nodes at the start.

The check is in POSIX sh and uses builtins only, so that neither the node nor the job's environment can change the
result.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from rainbow_sched.agent.backends.base import CannotBind
from rainbow_sched.agent.core.values import Result
from rainbow_sched.matching.structure.hierarchy import properties_of
from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.binding import WRONG_NODES, NodeRules, is_passed_on_fully
from rainbow_sched.model.graph import Graph
from rainbow_sched.model.hostlist import collapse
from rainbow_sched.model.request import Request
from rainbow_sched.protocol.messages import AllowedHosts

MAX_SHOWN_CHARS = 120  # of a list of names in a message

# rb_names prints each name of a hostlist such as a[1-3,07],b; a partial name begins with "=", so that there is always
# one. rb_outside prints the names of hostlist $1 that are not among the words of $2, or ? if there is no name.
FUNCTIONS = """\
rb_names() {
    rb_rest=$1
    while [ -n "$rb_rest" ]; do
        rb_made==
        while :; do
            rb_text=${rb_rest%%[[,]*}
            rb_rest=${rb_rest#"$rb_text"}
            rb_next=
            for rb_one in $rb_made; do rb_next="$rb_next $rb_one$rb_text"; done
            rb_made=$rb_next
            case $rb_rest in
            '['*) rb_list=${rb_rest#?}; rb_rest=${rb_rest#*]}; rb_numbers "${rb_list%%]*}" ;;
            ','*) rb_rest=${rb_rest#?}; break ;;
            *) break ;;
            esac
        done
        for rb_one in $rb_made; do printf '%s\\n' "${rb_one#=}"; done
    done
}
rb_numbers() {
    rb_next=
    IFS=,
    for rb_range in $1; do
        rb_first=${rb_range%%-*}
        rb_last=${rb_range#*-}
        case $rb_first in 0*) rb_width=${#rb_first} ;; *) rb_width=0 ;; esac
        rb_at=${rb_first#"${rb_first%%[!0]*}"}
        rb_end=${rb_last#"${rb_last%%[!0]*}"}
        rb_at=${rb_at:-0}
        while [ "$rb_at" -le "${rb_end:-0}" ]; do
            rb_text=$rb_at
            while [ ${#rb_text} -lt "$rb_width" ]; do rb_text=0$rb_text; done
            IFS=' '
            for rb_one in $rb_made; do rb_next="$rb_next $rb_one$rb_text"; done
            rb_at=$((rb_at + 1))
        done
    done
    unset IFS
    rb_made=$rb_next
}
rb_outside() {
    set -f
    rb_any=
    for rb_name in $(rb_names "$1"); do
        rb_any=1
        case " $2 " in *" $rb_name "*) ;; *) printf '%s ' "$rb_name" ;; esac
    done
    [ -n "$rb_any" ] || printf '?'
}
"""


def bound_hosts(wanted: Sequence[str], known: Sequence[str], manager: str) -> tuple[tuple[str, ...], str]:
    """Return the allowed hosts that the manager has, and a reason if it lacks some of them.

    Raise `CannotBind` if it has none or the names are ambiguous.
    """
    there, asked = Counter(known), Counter(wanted)
    names = tuple(name for name in asked if name in there)
    several = [name for name in names if there[name] > asked[name]]
    if several:
        raise CannotBind(
            f"the job may run on some of the nodes that {manager} calls {shown(several)}, and their names are not "
            "unique; give the nodes unique names"
        )
    if len(names) == len(asked):
        return names, ""
    missing = [name for name in asked if name not in there]
    unknown = (
        f"by the cluster's graph it may run on {shown(missing)}, but {manager} has "
        f"{shown(list(there)) or 'no nodes'}; register the graph with {manager}'s node names"
    )
    if not names:
        raise CannotBind(unknown)
    return names, unknown


def check_requirements(request: Request, allowed: AllowedHosts, rules: NodeRules, graph: Graph, manager: str) -> None:
    """Raise `CannotBind` for a requirement that neither manager nor allowed hosts enforce.

    Requirements of the request as a whole hold at the root, and so on every host.
    """
    if allowed.checked:
        return
    left = [
        (level.type, requirement.subsystem)
        for level in request.walk()
        for requirement in level.requires
        if not is_passed_on_fully(requirement, rules)
    ]
    everywhere = _types_that_hold_all_nodes(graph) if left else frozenset[str]()
    for type, subsystem in left:
        if type not in everywhere:
            raise CannotBind(
                f"the {type} must meet a requirement on {subsystem}, which {manager} cannot enforce, "
                "and the server does not send the allowed nodes; upgrade the server"
            )


def _types_that_hold_all_nodes(graph: Graph) -> frozenset[str]:
    """Return the types on the path to the root (to the node, if there is only one) that occur once in the graph."""
    nodes = [i for i, type in enumerate(graph.types) if type == "node"]
    counts = Counter(graph.types)
    found = set()
    at = nodes[0] if len(nodes) == 1 else 0
    while at >= 0:
        if counts[graph.types[at]] == 1:
            found.add(graph.types[at])
        at = graph.parents[at]
    return frozenset(found)


def check_names(names: Iterable[str], nodes: Collection[str], graph: Graph, allowed: AllowedHosts) -> None:
    """Raise `CannotBind` for named hosts that are not nodes, such as racks: a manager does not know them."""
    others = {name for name in names if name not in nodes}
    if not allowed.checked and others and (others := others.intersection(graph.names)):
        named = ", ".join(sorted(others))
        raise CannotBind(f"{named} is not a node, and the server does not send the nodes of it; upgrade the server")


def check_property(name: str, graph: Graph, allowed: AllowedHosts, manager: str) -> None:
    """Raise `CannotBind` if neither the manager, which does not know a property, nor allowed hosts enforce it."""
    if not allowed.checked and any(name in properties_of(about) for about in graph.metadata.values()):
        raise CannotBind(
            f"{manager} does not know the property {name!r}, and the server does not send the nodes that have it; "
            "upgrade the server"
        )


def wrong_nodes(got: str, allowed: str, manager: str, ended: float | None = None) -> Result:
    """Return the result of a job that got nodes on which it may not run; its command was not started."""
    reason = f"{manager} gave it {got or 'nodes without names'}, but it may run on {allowed} only; it was not started"
    return Result(state=AttemptState.RETURNED, reason=reason, ended_at=ended, code=WRONG_NODES)


def hostlist(names: Sequence[str]) -> str:
    """Return names as a hostlist; with commas if one of them cannot be written in one."""
    return collapse(names) or ",".join(names)


def shown(names: Sequence[str]) -> str:
    """Return names shortened for a message."""
    text = hostlist(names)
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[: MAX_SHOWN_CHARS - 3]}..."


def allowed_words(names: Iterable[str]) -> str:
    """Return allowed names as one quoted word: the second argument of rb_outside."""
    return shlex.quote(" ".join(names))
