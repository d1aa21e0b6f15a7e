"""The access policy: one rule for every RPC of every service on the port.

A rule states where the credential comes from (the call's metadata, or fields of the message as the prototype's clients
send it) and which scope it must have on which object. An RPC without a rule fails a test and is rejected at run time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

Request: TypeAlias = Any  # a protobuf message; its fields differ from RPC to RPC
Named = Callable[[Request], str]


@dataclass(frozen=True, slots=True)
class Anyone:
    """Any caller, without a credential."""


@dataclass(frozen=True, slots=True)
class Nobody:
    """Always rejected."""


@dataclass(frozen=True, slots=True)
class LocalOrConfigured:
    """Anonymous callers on loopback or if the operator allows them; other callers by credential."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Any caller with a valid credential; the service filters what they see."""


@dataclass(frozen=True, slots=True)
class Submitter:
    """A caller who may submit to at least one cluster."""


@dataclass(frozen=True, slots=True)
class Scoped:
    """A caller with the scope `verb` on the object that the message names."""

    verb: str
    named: Named


@dataclass(frozen=True, slots=True)
class InMessage:
    """A prototype's message with a secret, which must have the scope `verb` on the object that it names."""

    verb: str
    named: Named
    secret: Named


@dataclass(frozen=True, slots=True)
class TokensInMessage:
    """The prototype's submission: a list of cluster names with their tokens, all of which must be valid."""


@dataclass(frozen=True, slots=True)
class Administrator:
    """A caller whose credential and account both have the admin right."""


AccessRule = (
    Anyone | Nobody | LocalOrConfigured | Caller | Submitter | Administrator | Scoped | InMessage | TokensInMessage
)


def _cluster(message: Request) -> str:
    return str(message.cluster)


def _name(message: Request) -> str:
    return str(message.name)


def _header(message: Request) -> str:
    return str(message.header.cluster)


def _secret(message: Request) -> str:
    return str(message.secret)


V2 = "/rainbow.v2."
PROTOTYPE = "/convergedcomputing.org.grpc.v1.RainbowScheduler/"
MEMORY_GRAPH = "/service.MemoryGraph/"

POLICY: dict[str, AccessRule] = {
    f"{V2}Jobs/Submit": Submitter(),
    f"{V2}Jobs/SubmitBatch": Submitter(),
    f"{V2}Jobs/Plan": Submitter(),
    f"{V2}Jobs/Get": Caller(),
    f"{V2}Jobs/List": Caller(),
    f"{V2}Jobs/Watch": Caller(),
    f"{V2}Jobs/Logs": Caller(),
    f"{V2}Jobs/Cancel": Caller(),
    f"{V2}Jobs/Release": Caller(),
    f"{V2}Jobs/Explain": Caller(),
    f"{V2}Clusters/Register": Scoped("register", _header),
    f"{V2}Clusters/PutSubsystem": Scoped("agent", _header),
    f"{V2}Clusters/ReplaceGraph": Scoped("agent", _header),
    f"{V2}Clusters/DeleteSubsystem": Scoped("agent", _cluster),
    f"{V2}Clusters/Delete": Scoped("agent", _cluster),
    f"{V2}Clusters/UpdateState": Scoped("agent", _cluster),
    f"{V2}Clusters/PatchGraph": Scoped("agent", _cluster),
    f"{V2}Clusters/List": Caller(),
    f"{V2}Clusters/Get": Caller(),
    f"{V2}Clusters/Drain": Scoped("agent", _cluster),
    f"{V2}Clusters/Undrain": Scoped("agent", _cluster),
    f"{V2}Clusters/SetRules": Scoped("agent", _cluster),
    f"{V2}Clusters/GetRestore": Administrator(),
    f"{V2}Clusters/GiveUpReport": Administrator(),
    f"{V2}Agents/Sync": Scoped("agent", _cluster),
    f"{V2}Agents/Receive": Scoped("agent", _cluster),
    f"{V2}Agents/Accept": Scoped("agent", _cluster),
    f"{V2}Agents/Renew": Scoped("agent", _cluster),
    f"{V2}Access/WhoAmI": Caller(),
    f"{V2}Access/PutUser": Administrator(),
    f"{V2}Access/ListUsers": Administrator(),
    f"{V2}Access/PutGroup": Administrator(),
    f"{V2}Access/ListGroups": Administrator(),
    f"{V2}Access/CreateToken": Caller(),  # at most what the caller has, by the use case
    f"{V2}Access/ListTokens": Caller(),
    f"{V2}Access/RevokeToken": Caller(),
    f"{V2}Access/RotateToken": Caller(),
    f"{V2}Access/AskRenewal": Administrator(),
    f"{V2}Access/ReadAudit": Administrator(),
    f"{PROTOTYPE}Register": InMessage("register", _name, _secret),
    f"{PROTOTYPE}RegisterSubsystem": InMessage("agent", _name, _secret),
    f"{PROTOTYPE}Delete": InMessage("agent", _name, _secret),
    f"{PROTOTYPE}DeleteSubsystem": InMessage("agent", _name, _secret),
    f"{PROTOTYPE}UpdateState": InMessage("agent", _cluster, _secret),
    f"{PROTOTYPE}SubmitJob": TokensInMessage(),
    f"{PROTOTYPE}ReceiveJobs": InMessage("agent", _cluster, _secret),
    f"{PROTOTYPE}AcceptJobs": InMessage("agent", _cluster, _secret),
    f"{MEMORY_GRAPH}Satisfy": LocalOrConfigured(),
    f"{MEMORY_GRAPH}Register": Nobody(),
    "/grpc.health.v1.Health/Check": Anyone(),
    "/grpc.health.v1.Health/List": Anyone(),
    "/grpc.health.v1.Health/Watch": Anyone(),
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": Caller(),
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": Caller(),
}

# Shed first under overload.
SUBMISSIONS = frozenset(
    {f"{V2}Jobs/Submit", f"{V2}Jobs/SubmitBatch", f"{V2}Jobs/Plan", f"{PROTOTYPE}SubmitJob", f"{MEMORY_GRAPH}Satisfy"}
)
# Submissions of one job, whose duration is used for the estimate.
SINGLE = frozenset({f"{V2}Jobs/Submit", f"{PROTOTYPE}SubmitJob"})
# Long polls by which agents report and renew leases; they are never shed and have no deadline.
LONG_POLLS = frozenset({f"{V2}Agents/Sync"})
# A message may carry a whole graph.
UPLOADS = frozenset({f"{PROTOTYPE}Register", f"{PROTOTYPE}RegisterSubsystem"})
# A message may have MAX_BULK_MESSAGE_BYTES.
BULKY = UPLOADS | LONG_POLLS | {f"{V2}Jobs/SubmitBatch"}
