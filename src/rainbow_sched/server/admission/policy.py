"""The access policy: one rule for every RPC of every service on the port.

A rule states where the credential comes from (the call's metadata, or fields of the message as the prototype's clients
send it) and which scope it must have on which object. An RPC without a rule fails a test and is rejected at run time.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeAlias

Request: TypeAlias = Any  # a protobuf message; its fields differ from RPC to RPC
Named = Callable[[Request], str]


class Access(enum.Enum):
    """Access rules that name no object."""

    ANYONE = enum.auto()  # also without a credential
    NOBODY = enum.auto()  # always rejected
    LOCAL_OR_CONFIGURED = enum.auto()  # anonymous on loopback or if the operator allows it; others by credential
    CALLER = enum.auto()  # with any valid credential; the service filters what the caller sees
    SUBMITTER = enum.auto()  # who may submit to at least one cluster
    ADMINISTRATOR = enum.auto()  # whose credential and account both have the admin right
    TOKENS_IN_MESSAGE = enum.auto()  # the prototype's submission names clusters, each with a token that must be valid


@dataclass(frozen=True, slots=True)
class Scoped:
    """A caller with the scope `verb` on the object that the message names."""

    verb: str
    named: Named
    secret: Named | None = None  # the credential in a message of the prototype; None: it is in the metadata


AccessRule = Access | Scoped


_cluster, _name, _header, _secret = map(attrgetter, ("cluster", "name", "header.cluster", "secret"))
V2 = "/rainbow.v2."
PROTOTYPE = "/convergedcomputing.org.grpc.v1.RainbowScheduler/"
MEMORY_GRAPH = "/service.MemoryGraph/"

POLICY: dict[str, AccessRule] = {
    f"{V2}Jobs/Submit": Access.SUBMITTER,
    f"{V2}Jobs/SubmitBatch": Access.SUBMITTER,
    f"{V2}Jobs/Plan": Access.SUBMITTER,
    f"{V2}Jobs/Get": Access.CALLER,
    f"{V2}Jobs/List": Access.CALLER,
    f"{V2}Jobs/Watch": Access.CALLER,
    f"{V2}Jobs/Logs": Access.CALLER,
    f"{V2}Jobs/Cancel": Access.CALLER,
    f"{V2}Jobs/Release": Access.CALLER,
    f"{V2}Jobs/Explain": Access.CALLER,
    f"{V2}Clusters/Register": Scoped("register", _header),
    f"{V2}Clusters/PutSubsystem": Scoped("agent", _header),
    f"{V2}Clusters/ReplaceGraph": Scoped("agent", _header),
    f"{V2}Clusters/DeleteSubsystem": Scoped("agent", _cluster),
    f"{V2}Clusters/Delete": Scoped("agent", _cluster),
    f"{V2}Clusters/UpdateState": Scoped("agent", _cluster),
    f"{V2}Clusters/PatchGraph": Scoped("agent", _cluster),
    f"{V2}Clusters/List": Access.CALLER,
    f"{V2}Clusters/Get": Access.CALLER,
    f"{V2}Clusters/Drain": Scoped("agent", _cluster),
    f"{V2}Clusters/Undrain": Scoped("agent", _cluster),
    f"{V2}Clusters/SetRules": Scoped("agent", _cluster),
    f"{V2}Clusters/GetRestore": Access.ADMINISTRATOR,
    f"{V2}Clusters/GiveUpReport": Access.ADMINISTRATOR,
    f"{V2}Agents/Sync": Scoped("agent", _cluster),
    f"{V2}Agents/Receive": Scoped("agent", _cluster),
    f"{V2}Agents/Accept": Scoped("agent", _cluster),
    f"{V2}Agents/Renew": Scoped("agent", _cluster),
    f"{V2}Access/WhoAmI": Access.CALLER,
    f"{V2}Access/PutUser": Access.ADMINISTRATOR,
    f"{V2}Access/ListUsers": Access.ADMINISTRATOR,
    f"{V2}Access/PutGroup": Access.ADMINISTRATOR,
    f"{V2}Access/ListGroups": Access.ADMINISTRATOR,
    f"{V2}Access/CreateToken": Access.CALLER,  # at most what the caller has, by the use case
    f"{V2}Access/ListTokens": Access.CALLER,
    f"{V2}Access/RevokeToken": Access.CALLER,
    f"{V2}Access/RotateToken": Access.CALLER,
    f"{V2}Access/AskRenewal": Access.ADMINISTRATOR,
    f"{V2}Access/ReadAudit": Access.ADMINISTRATOR,
    f"{PROTOTYPE}Register": Scoped("register", _name, _secret),
    f"{PROTOTYPE}RegisterSubsystem": Scoped("agent", _name, _secret),
    f"{PROTOTYPE}Delete": Scoped("agent", _name, _secret),
    f"{PROTOTYPE}DeleteSubsystem": Scoped("agent", _name, _secret),
    f"{PROTOTYPE}UpdateState": Scoped("agent", _cluster, _secret),
    f"{PROTOTYPE}SubmitJob": Access.TOKENS_IN_MESSAGE,
    f"{PROTOTYPE}ReceiveJobs": Scoped("agent", _cluster, _secret),
    f"{PROTOTYPE}AcceptJobs": Scoped("agent", _cluster, _secret),
    f"{MEMORY_GRAPH}Satisfy": Access.LOCAL_OR_CONFIGURED,
    f"{MEMORY_GRAPH}Register": Access.NOBODY,
    "/grpc.health.v1.Health/Check": Access.ANYONE,
    "/grpc.health.v1.Health/List": Access.ANYONE,
    "/grpc.health.v1.Health/Watch": Access.ANYONE,
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": Access.CALLER,
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": Access.CALLER,
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
