"""Names the caller of a call by what it carries, and holds it against the call's row of the policy."""

from __future__ import annotations

import functools
import ipaddress
from dataclasses import replace
from typing import Any

from rainbow_sched.model.credential import CredentialKind, Principal
from rainbow_sched.model.errors import Denied, RainbowError, Unauthenticated
from rainbow_sched.server.admission.connections import network_of
from rainbow_sched.server.admission.limits import RateLimiter
from rainbow_sched.server.admission.policy import (
    Administrator,
    Caller,
    InMessage,
    LocalOrConfigured,
    Nobody,
    Row,
    Scoped,
    Submitter,
    TokensInMessage,
)
from rainbow_sched.service.access.audit import ANONYMOUS, act_as
from rainbow_sched.service.access.principals import CredentialResolver, need
from rainbow_sched.service.clock import Clock

BY_BEARER = (Caller, Submitter, Administrator, Scoped, LocalOrConfigured)  # whom a call's metadata names
MOST_TOKENS = 1_000
MOST_CREDENTIAL = 16 * 1024  # characters; even hashing a longer one would be work for a guesser's sake
_ASK = "this call needs a credential: set RAINBOW_TOKEN, or token in the configuration file"


class Authenticator:
    """From a call to a principal who may make it."""

    def __init__(
        self, credential_resolver: CredentialResolver, clock: Clock, traffic: RateLimiter, *, anonymous_satisfy: bool
    ) -> None:
        self._credential_resolver, self._clock, self._traffic = credential_resolver, clock, traffic
        self._anonymous_satisfy = anonymous_satisfy

    async def admit(self, row: Row, message: Any, context: Any, address: str) -> Principal:
        """The caller, named for the rest of the call; raise if the row is closed to them."""
        try:
            if isinstance(row, Nobody):
                raise Unauthenticated("this call is not open to anyone; use rainbow.v2")
            principal = await self._named(row, message, context, address)
        except RainbowError:
            act_as(ANONYMOUS, address)
            raise
        act_as(principal, address)
        self._hold_against(row, principal, message, address)
        return principal

    def admit_known(self, row: Row, message: Any, context: Any, address: str) -> Principal | None:
        """The same without waiting, for one bearer token that was looked up a moment ago; else None."""
        if not isinstance(row, BY_BEARER):
            return None
        token: str | None = None
        for key, value in context.invocation_metadata() or ():
            if key == "rainbow-cluster-token" or (key == "authorization" and token is not None):
                return None
            if key == "authorization":
                token = _bearer(value)
        if not token or len(token) > MOST_CREDENTIAL:
            return None
        principal = self._credential_resolver.known(token, self._clock.now())
        if principal is not None:
            act_as(principal, address)
            self._hold_against(row, principal, message, address)
        return principal

    def familiar(self, metadata: Any) -> bool:
        """True if a call carries a credential that was good once: nothing is looked up."""
        for key, value in metadata or ():
            if key == "authorization":
                return self._credential_resolver.was_valid(_bearer(value))
        return False

    async def introduce(self, context: Any, address: str) -> Principal:
        """Who calls, by the call's metadata alone; whoever does not say is refused."""
        principal = await self._by_metadata(context, address)
        if principal.kind is None:
            raise Unauthenticated(_ASK)
        return principal

    async def _named(self, row: Row, message: Any, context: Any, address: str) -> Principal:
        if isinstance(row, InMessage):
            return await self._recognise(row.secret(message), address)
        if isinstance(row, TokensInMessage):
            return await self._by_tokens([(entry.name, entry.token) for entry in message.clusters], address)
        return await self._by_metadata(context, address)

    def _hold_against(self, row: Row, principal: Principal, message: Any, address: str) -> None:
        if isinstance(row, LocalOrConfigured):
            if principal.kind is None and not self._anonymous_satisfy and not is_local(address):
                raise Unauthenticated(_ASK)
        elif principal.kind is None:
            raise Unauthenticated(_ASK)
        elif isinstance(row, Scoped | InMessage):
            need(principal, row.verb, row.named(message))
        elif isinstance(row, Administrator):
            if not principal.admin:
                raise Denied("this call is for administrators")
        elif (
            isinstance(row, Submitter)
            and not principal.admin
            and not any(scope.startswith("submit:") for scope in principal.scopes)
        ):
            raise Denied("your credential opens no cluster for submission")

    async def _recognise(self, text: str, address: str) -> Principal:
        if len(text) > MOST_CREDENTIAL:
            raise Unauthenticated("that is too long for a credential")
        now = self._clock.now()
        principal = self._credential_resolver.known(text, now)
        if principal is not None:
            return principal
        if not self._credential_resolver.was_valid(text):
            self._traffic.knock(network_of(address), now)
        return await self._credential_resolver.resolve(text, now)

    async def _by_metadata(self, context: Any, address: str) -> Principal:
        """The caller by bearer token; cluster tokens beside it open further clusters for submission."""
        principal, tokens = ANONYMOUS, []
        for key, value in context.invocation_metadata() or ():
            if key == "authorization":
                if principal.kind is not None:
                    raise Unauthenticated("a call carries one bearer token")
                principal = await self._recognise(_bearer(value), address)
            elif key == "rainbow-cluster-token":
                tokens.append(tuple(_text(value).partition("=")[::2]))
        if not tokens:
            return principal
        opened = await self._by_tokens(tokens, address)
        if principal.kind is None:
            return opened
        more = frozenset(scope for scope in opened.scopes if scope.startswith("submit:"))
        return replace(principal, scopes=principal.scopes | more)

    async def _by_tokens(self, tokens: list[tuple[str, ...]], address: str) -> Principal:
        """A submitter by the tokens of clusters; empty entries are skipped, one bad token refuses the call."""
        given = [(name, token) for name, token in tokens if name or token]
        if not given:
            raise Unauthenticated("name at least one cluster with its token")
        if len(given) > MOST_TOKENS:
            raise Denied(f"a call names at most {MOST_TOKENS} clusters with their tokens")
        scopes: set[str] = set()
        found: list[Principal] = []
        for name, token in given:
            principal = await self._recognise(token, address)
            need(principal, "submit", name)
            scopes |= {f"submit:{name}", "job:read:own", "job:cancel:own"}
            found.append(principal)
        first = min(found, key=lambda one: one.name)
        return Principal(
            name=first.name, kind=CredentialKind.SUBMIT, credential=first.credential, scopes=frozenset(scopes)
        )


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _bearer(value: str | bytes) -> str:
    text = _text(value)
    kind, _, token = text.partition(" ")
    return token.strip() if kind.lower() == "bearer" else text


@functools.lru_cache(maxsize=4096)
def address_of(peer: str) -> str:
    """The host in what gRPC says of the other side: `ipv4:127.0.0.1:4711`, `ipv6:[::1]:4711`, `unix:`."""
    if peer.startswith("unix:"):
        return "unix"
    _, _, rest = peer.partition(":")
    return rest.rpartition(":")[0].replace("%5B", "[").replace("%5D", "]").strip("[]").partition("%")[0]


def is_local(address: str) -> bool:
    """True for a caller on this machine."""
    if address == "unix":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
