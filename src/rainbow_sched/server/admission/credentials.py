"""Authenticate the caller of a call by its credential, and authorize it by the access rule of the call."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import replace

from rainbow_sched.client.settings import is_loopback
from rainbow_sched.model.credential import CredentialKind, Principal
from rainbow_sched.model.errors import Denied, Unauthenticated
from rainbow_sched.server.admission.calls import Call
from rainbow_sched.server.admission.connections import network_of
from rainbow_sched.server.admission.limits import RateLimiter
from rainbow_sched.server.admission.policy import Access, Scoped
from rainbow_sched.service.access.audit import ANONYMOUS, act_as
from rainbow_sched.service.access.principals import NO_CREDENTIAL, CredentialResolver, need
from rainbow_sched.service.clock import Clock

Metadata = Sequence[tuple[str, str | bytes]]
MAX_TOKENS_PER_CALL = 1_000  # bounds the lookups of one call
MAX_CREDENTIAL_CHARS = 16 * 1024  # a longer one is not even hashed


class Authenticator:
    """Authenticates and authorizes the callers of calls."""

    def __init__(
        self, credential_resolver: CredentialResolver, clock: Clock, limiter: RateLimiter, *, anonymous_satisfy: bool
    ) -> None:
        self._credential_resolver, self._clock, self._limiter = credential_resolver, clock, limiter
        self._anonymous_satisfy = anonymous_satisfy

    def authenticate(self, call: Call) -> Awaitable[None] | None:
        """Set the caller for the rest of the call; return an awaitable unless its one bearer token is cached."""
        principal = self._cached(call) if call.method.bearer else None
        if principal is None:
            return self._authenticate(call)
        call.principal = principal
        act_as(principal, call.address)
        return None

    def authorize(self, call: Call) -> None:
        """Raise Unauthenticated or Denied if the access rule does not admit the caller."""
        row, principal = call.method.row, call.principal
        if row is Access.LOCAL_OR_CONFIGURED:
            local = call.address == "unix" or is_loopback(call.address)
            if principal.kind is None and not self._anonymous_satisfy and not local:
                raise Unauthenticated(NO_CREDENTIAL)
        elif principal.kind is None:
            raise Unauthenticated(NO_CREDENTIAL)
        elif isinstance(row, Scoped):
            need(principal, row.verb, row.named(call.message))
        elif row is Access.ADMINISTRATOR:
            if not principal.admin:
                raise Denied("this call is for administrators")
        elif (
            row is Access.SUBMITTER
            and not principal.admin
            and not any(scope.startswith("submit:") for scope in principal.scopes)
        ):
            raise Denied("your credential does not allow submission to any cluster")

    async def recheck(self, call: Call) -> Principal:
        """Return who an open call belongs to now; raise if it is no longer admitted."""
        again = call.anonymous()
        await self._authenticate(again)
        self.authorize(again)
        return again.principal

    async def authenticate_by_metadata(self, call: Call) -> Principal:
        """Set and return the caller by the metadata alone, before a message is read; raise if it has no credential."""
        act_as(ANONYMOUS, call.address)
        _check_enabled(call)
        call.principal = await self._by_metadata(call)
        if call.principal.kind is None:
            raise Unauthenticated(NO_CREDENTIAL)
        return call.principal

    def has_known_credential(self, metadata: Metadata | None) -> bool:
        """Return True if a call carries a credential that was valid before. Nothing is looked up."""
        for key, value in metadata or ():
            if key == "authorization":
                return self._credential_resolver.was_valid(_bearer(value))
        return False

    async def _authenticate(self, call: Call) -> None:
        act_as(ANONYMOUS, call.address)
        _check_enabled(call)
        row, message = call.method.row, call.message
        if isinstance(row, Scoped) and row.secret is not None:
            call.principal = await self._resolve(row.secret(message), call.address)
        elif row is Access.TOKENS_IN_MESSAGE:
            tokens = [(entry.name, entry.token) for entry in message.clusters]
            call.principal = await self._by_tokens(tokens, call.address)
        else:
            call.principal = await self._by_metadata(call)
        act_as(call.principal, call.address)

    def _cached(self, call: Call) -> Principal | None:
        """Return the principal of a call with one cached bearer token, and no other credential."""
        token: str | None = None
        for key, value in call.context.invocation_metadata() or ():
            if key == "rainbow-cluster-token" or (key == "authorization" and token is not None):
                return None
            if key == "authorization":
                token = _bearer(value)
        if not token or len(token) > MAX_CREDENTIAL_CHARS:
            return None
        return self._credential_resolver.cached(token, self._clock.now())

    async def _resolve(self, text: str, address: str) -> Principal:
        if len(text) > MAX_CREDENTIAL_CHARS:
            raise Unauthenticated("the credential is too long")
        now = self._clock.now()
        principal = self._credential_resolver.cached(text, now)
        if principal is not None:
            return principal
        if not self._credential_resolver.was_valid(text):
            self._limiter.check_address(network_of(address), now)
        return await self._credential_resolver.resolve(text, now)

    async def _by_metadata(self, call: Call) -> Principal:
        """Return the caller by bearer token; cluster tokens add further clusters for submission."""
        principal, tokens = ANONYMOUS, list[tuple[str, ...]]()
        for key, value in call.context.invocation_metadata() or ():
            if key == "authorization":
                if principal.kind is not None:
                    raise Unauthenticated("a call carries one bearer token")
                principal = await self._resolve(_bearer(value), call.address)
            elif key == "rainbow-cluster-token":
                tokens.append(tuple(_text(value).partition("=")[::2]))
        if not tokens:
            return principal
        opened = await self._by_tokens(tokens, call.address)
        if principal.kind is None:
            return opened
        more = frozenset(scope for scope in opened.scopes if scope.startswith("submit:"))
        return replace(principal, scopes=principal.scopes | more)

    async def _by_tokens(self, tokens: Sequence[tuple[str, ...]], address: str) -> Principal:
        """Return a submitter by the tokens of clusters. Skip empty entries; one invalid token rejects the call."""
        given = [(name, token) for name, token in tokens if name or token]
        if not given:
            raise Unauthenticated("give at least one cluster with its token")
        if len(given) > MAX_TOKENS_PER_CALL:
            raise Denied(f"a call names at most {MAX_TOKENS_PER_CALL} clusters with their tokens")
        scopes: set[str] = set()
        found: list[Principal] = []
        for name, token in given:
            principal = await self._resolve(token, address)
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


def _check_enabled(call: Call) -> None:
    if call.method.row is Access.NOBODY:
        raise Unauthenticated("this call is disabled; use rainbow.v2")
