"""Who may call what: one row for every RPC of every service on the port, and nowhere else.

A row names where the credential comes from (the call's metadata, or fields of the message
as the prototype's clients send it) and which scope it must have on which object. A new
RPC without a row fails a test, and is refused at run time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Named = Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class Anyone:
    """Open to all: health."""


@dataclass(frozen=True, slots=True)
class Nobody:
    """Refused to all, always."""


@dataclass(frozen=True, slots=True)
class LocalOrConfigured:
    """Anonymous on loopback, or where the operator allowed it by name; else by credential."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Any caller with a credential; what they see is cut to their reach by the service."""


@dataclass(frozen=True, slots=True)
class Submitter:
    """A caller whose credentials open at least one cluster for submission."""


@dataclass(frozen=True, slots=True)
class Scoped:
    """A caller with `verb` on the object that the message names."""

    verb: str
    named: Named


@dataclass(frozen=True, slots=True)
class InMessage:
    """The prototype's way: the message carries the secret; it must have `verb` on the object named."""

    verb: str
    named: Named
    secret: Named


@dataclass(frozen=True, slots=True)
class TokensInMessage:
    """The prototype's submission: a list of cluster names with their tokens; each must be good."""


@dataclass(frozen=True, slots=True)
class Administrator:
    """A caller whose credential and account both say admin."""


Row = Anyone | Nobody | LocalOrConfigured | Caller | Submitter | Administrator | Scoped | InMessage | TokensInMessage


def _cluster(message: Any) -> str:
    return str(message.cluster)


def _name(message: Any) -> str:
    return str(message.name)


def _header(message: Any) -> str:
    return str(message.header.cluster)


def _secret(message: Any) -> str:
    return str(message.secret)


OURS = "/rainbow.v2."
THEIRS = "/convergedcomputing.org.grpc.v1.RainbowScheduler/"
GRAPH = "/service.MemoryGraph/"

POLICY: dict[str, Row] = {
    f"{OURS}Jobs/Submit": Submitter(),
    f"{OURS}Jobs/SubmitBatch": Submitter(),
    f"{OURS}Jobs/Plan": Submitter(),
    f"{OURS}Jobs/Get": Caller(),
    f"{OURS}Jobs/List": Caller(),
    f"{OURS}Jobs/Watch": Caller(),
    f"{OURS}Jobs/Logs": Caller(),
    f"{OURS}Jobs/Cancel": Caller(),
    f"{OURS}Jobs/Release": Caller(),
    f"{OURS}Jobs/Explain": Caller(),
    f"{OURS}Clusters/Register": Scoped("register", _header),
    f"{OURS}Clusters/PutSubsystem": Scoped("agent", _header),
    f"{OURS}Clusters/ReplaceGraph": Scoped("agent", _header),
    f"{OURS}Clusters/DeleteSubsystem": Scoped("agent", _cluster),
    f"{OURS}Clusters/Delete": Scoped("agent", _cluster),
    f"{OURS}Clusters/UpdateState": Scoped("agent", _cluster),
    f"{OURS}Clusters/PatchGraph": Scoped("agent", _cluster),
    f"{OURS}Clusters/List": Caller(),
    f"{OURS}Clusters/Get": Caller(),
    f"{OURS}Clusters/Drain": Scoped("agent", _cluster),
    f"{OURS}Clusters/Undrain": Scoped("agent", _cluster),
    f"{OURS}Clusters/SetRules": Scoped("agent", _cluster),
    f"{OURS}Clusters/GetRestore": Administrator(),
    f"{OURS}Clusters/GiveUpReport": Administrator(),
    f"{OURS}Agents/Sync": Scoped("agent", _cluster),
    f"{OURS}Agents/Receive": Scoped("agent", _cluster),
    f"{OURS}Agents/Accept": Scoped("agent", _cluster),
    f"{OURS}Agents/Renew": Scoped("agent", _cluster),
    f"{OURS}Access/WhoAmI": Caller(),
    f"{OURS}Access/PutUser": Administrator(),
    f"{OURS}Access/ListUsers": Administrator(),
    f"{OURS}Access/PutGroup": Administrator(),
    f"{OURS}Access/ListGroups": Administrator(),
    f"{OURS}Access/CreateToken": Caller(),  # at most what the caller has, by the use case
    f"{OURS}Access/ListTokens": Caller(),
    f"{OURS}Access/RevokeToken": Caller(),
    f"{OURS}Access/RotateToken": Caller(),
    f"{OURS}Access/AskRenewal": Administrator(),
    f"{OURS}Access/ReadAudit": Administrator(),
    f"{THEIRS}Register": InMessage("register", _name, _secret),
    f"{THEIRS}RegisterSubsystem": InMessage("agent", _name, _secret),
    f"{THEIRS}Delete": InMessage("agent", _name, _secret),
    f"{THEIRS}DeleteSubsystem": InMessage("agent", _name, _secret),
    f"{THEIRS}UpdateState": InMessage("agent", _cluster, _secret),
    f"{THEIRS}SubmitJob": TokensInMessage(),
    f"{THEIRS}ReceiveJobs": InMessage("agent", _cluster, _secret),
    f"{THEIRS}AcceptJobs": InMessage("agent", _cluster, _secret),
    f"{GRAPH}Satisfy": LocalOrConfigured(),
    f"{GRAPH}Register": Nobody(),
    "/grpc.health.v1.Health/Check": Anyone(),
    "/grpc.health.v1.Health/List": Anyone(),
    "/grpc.health.v1.Health/Watch": Anyone(),
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": Caller(),
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": Caller(),
}

# What is turned away first when the server has more to do than it can.
SUBMISSIONS = frozenset(
    {f"{OURS}Jobs/Submit", f"{OURS}Jobs/SubmitBatch", f"{OURS}Jobs/Plan", f"{THEIRS}SubmitJob", f"{GRAPH}Satisfy"}
)
# Of these, the ones that tell how long one job takes.
SINGLE = frozenset({f"{OURS}Jobs/Submit", f"{THEIRS}SubmitJob"})
# Agents keep their jobs alive with these: they come before everything else, and wait for as long as they asked.
RENEWALS = frozenset({f"{OURS}Agents/Sync"})
# One message can carry a whole graph.
UPLOADS = frozenset({f"{THEIRS}Register", f"{THEIRS}RegisterSubsystem"})
# A message of these may be large.
BULKY = UPLOADS | RENEWALS | {f"{OURS}Jobs/SubmitBatch"}
