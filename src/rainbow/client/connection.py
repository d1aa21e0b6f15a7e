"""One client's way to its servers: channels, credentials, deadlines, and which failures are tried again."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc

from rainbow.client.probing import why_not
from rainbow.client.rpcs import Answered, Asked, Purpose, Rpc
from rainbow.client.settings import Address, Settings, Tls, once_started
from rainbow.client.statuses import error_of_call
from rainbow.model.errors import Exhausted, Invalid, NotFound, RainbowError, Unauthenticated, Unavailable

MAX_MESSAGE = 64 << 20  # what a server may answer at most
OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),  # a server that came back is found within a second
    ("grpc.keepalive_time_ms", 20_000),  # a dead connection is noticed within 30 s; our servers allow a ping a second
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),  # without it gRPC waits a minute for the answer to its ping
    ("grpc.enable_http_proxy", 0),
)
_ASCII = frozenset(map(chr, range(0x20, 0x7F)))
_END_OF_STREAM: Any = grpc.aio.EOF  # type: ignore[attr-defined]  # missing in the stubs


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to pause before trying again: doubling, capped, and never the same for two clients."""

    first: float = 0.1
    cap: float = 5.0

    def delay(self, attempt: int, rng: random.Random) -> float:
        """The pause before try number `attempt` (from 0): between half and all of the doubled time."""
        longest = min(self.cap, self.first * 2.0 ** min(attempt, 30))
        return longest * (0.5 + rng.random() / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a call may take, and for how long an unreachable server is tried again."""

    answer: float = 30.0  # seconds for one unary call, all its tries together
    upload: float = 600.0
    connect: float = 5.0
    unreachable: float = 3.0
    stream: float = 600.0  # a followed job outlives a server's restart
    first: float = 30.0  # of those, for a server that was never reached: it may be restarted just now, or be none
    backoff: Backoff = field(default_factory=Backoff)


class _NotConnected(Exception):
    """The server was never reached, so the call cannot have had an effect."""


class Connection:
    """Calls with failover. Every error that leaves it is one of `model/errors.py`."""

    def __init__(
        self,
        settings: Settings,
        *,
        patience: Patience | None = None,
        rng: random.Random | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.settings = settings
        self.patience = patience or Patience()
        self.rng = rng or random.Random()
        self.sleep = sleep
        self._channels: dict[Address, grpc.aio.Channel] = {}
        self._reasons: dict[Address, str] = {}  # why one could not be reached
        self._at = 0  # which of the servers is used now
        self._reached = False  # has any of them ever been there?
        self._soon = self.patience.unreachable  # an absence that is shorter is not worth a word
        self._told = False  # that they are away
        self.on_absence: Callable[[float], None] = lambda seconds: None  # told for how long they are tried again

    def stay(self) -> None:
        """From here on wait for a server that is away as long as a stream would: there is something to come back to."""
        self.patience = replace(self.patience, unreachable=self.patience.stream, answer=self.patience.stream)

    def bears(self, absence: float, seconds: float) -> bool:
        """True if an absence of the servers is borne: for `seconds`, but less while none was ever there to come back.

        One that takes longer than a restart is told, once: silence for minutes would look like a job that is slow.
        """
        longest = seconds if self._reached else min(seconds, max(self.patience.first, self._soon))
        if not self._told and self._soon < absence < longest:
            self._told = True
            self.on_absence(longest)
        return absence < longest

    async def close(self) -> None:
        """Close every channel; calls under way are cancelled."""
        channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            await channel.close(None)

    async def call(
        self,
        rpc: Rpc[Asked, Answered],
        request: Asked,
        *,
        bearer: str | None = None,
        only: Iterable[str] = (),
        timeout: float | None = None,
    ) -> Answered:
        """Ask once and get one answer. `bearer` takes the place of the configured credential."""

        async def once(channel: grpc.aio.Channel, seconds: float) -> Answered:
            metadata = self.metadata(rpc.purpose, bearer=bearer, only=only)
            method = channel.unary_unary(rpc.path, _bytes_of, rpc.answers.FromString)
            answer: Answered = await method(request, timeout=seconds, metadata=metadata)
            return answer

        try:
            return await self._trying(once, twice=rpc.twice, seconds=timeout or self.patience.answer)
        except Unauthenticated as error:
            if bearer is not None:
                raise
            raise self._with_origin(error, rpc.purpose) from None

    async def upload(
        self, rpc: Rpc[Asked, Answered], pieces: Callable[[], Iterable[Asked]], *, bearer: str | None = None
    ) -> Answered:
        """Send a stream of pieces and get one answer; `pieces` is called again for every try."""

        async def once(channel: grpc.aio.Channel, seconds: float) -> Answered:
            metadata = self.metadata(rpc.purpose, bearer=bearer)
            method = channel.stream_unary(rpc.path, _bytes_of, rpc.answers.FromString)
            answer: Answered = await method(iter(pieces()), timeout=seconds, metadata=metadata)
            return answer

        try:
            return await self._trying(once, twice=rpc.twice, seconds=self.patience.upload)
        except Unauthenticated as error:
            if bearer is not None:
                raise
            raise self._with_origin(error, rpc.purpose) from None

    async def stream(
        self, rpc: Rpc[Asked, Answered], request: Asked, begun: Callable[[dict[str, str]], None] | None = None
    ) -> AsyncGenerator[Answered, None]:
        """One try of a server stream; a cut raises Unavailable, and the next try goes to the next server.

        `begun` is told what the server says of the stream before its first message.
        """
        address = self._address()
        try:
            channel = await self._connected(address)
            method = channel.unary_stream(rpc.path, _bytes_of, rpc.answers.FromString)
            call = method(request, metadata=self.metadata(rpc.purpose))
            try:
                if begun is not None:
                    begun({key: str(value) for key, value in await call.initial_metadata() or ()})
                # Not `async for`: its iterator would be left open when this generator is closed early.
                message: Any = await call.read()
                while message is not _END_OF_STREAM:
                    yield message
                    message = await call.read()
            finally:
                call.cancel()
        except _NotConnected as error:
            self._move_on(address)
            raise Unavailable(str(error)) from None
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                self._move_on(address)
            raise self._with_origin(error_of_call(error, server=str(address)), rpc.purpose) from None

    def _with_origin(self, error: RainbowError, purpose: Purpose) -> RainbowError:
        """A refused credential with where it came from: a person has several places to look at."""
        if not isinstance(error, Unauthenticated) or purpose is Purpose.CLUSTER:
            return error
        registering = purpose is Purpose.REGISTRATION
        sent = self.settings.sent(registering=registering)
        advice = "registering needs RAINBOW_REGISTRATION_SECRET" if registering else "rainbow login keeps one"
        return Unauthenticated(f"{error} ({f'sent: {sent}' if sent else advice})")

    def metadata(
        self, purpose: Purpose, *, bearer: str | None = None, only: Iterable[str] = ()
    ) -> tuple[tuple[str, str], ...]:
        """The credentials that go with a call, and no others."""
        settings = self.settings
        configured = {
            Purpose.USER: settings.token,
            Purpose.SUBMIT: settings.token,
            Purpose.CLUSTER: settings.secret_for(settings.cluster),
            Purpose.REGISTRATION: settings.registration_secret or settings.token,
        }[purpose]
        token = configured if bearer is None else bearer
        pairs = [("authorization", f"Bearer {_printable(token, 'the credential')}")] if token else []
        if purpose is Purpose.SUBMIT or (purpose is Purpose.USER and not token):
            wanted = set(only) or settings.cluster_tokens.keys()
            pairs += [
                ("rainbow-cluster-token", _printable(f"{name}={secret}", f"the token of {name}"))
                for name, secret in settings.cluster_tokens.items()
                if name in wanted
            ]
        return tuple(pairs)

    async def _trying(
        self, once: Callable[[grpc.aio.Channel, float], Awaitable[Answered]], *, twice: bool, seconds: float
    ) -> Answered:
        loop = asyncio.get_running_loop()
        began, tries = loop.time(), 0
        while True:
            address = self._address()
            left = seconds - (loop.time() - began)
            try:
                channel = await self._connected(address)
                return await once(channel, max(left, 0.001))
            except _NotConnected as error:
                failure: RainbowError = Unavailable(str(error))
            except grpc.aio.AioRpcError as error:
                failure = error_of_call(error, server=str(address))
                if not _may_ask_again(error.code(), failure, twice=twice):
                    raise failure from None
            self._move_on(address)
            tries += 1
            round_trips = tries - len(self.settings.servers)  # every server gets its chance before the first pause
            pause = 0.0 if round_trips < 0 else self.patience.backoff.delay(round_trips, self.rng)
            if isinstance(failure, Exhausted):
                pause = max(pause, failure.retry_after * (1 + self.rng.random() / 2))
            away = loop.time() - began + pause
            if round_trips >= 0 and not self.bears(away, min(self.patience.unreachable, seconds)):
                raise failure
            await self.sleep(pause)

    def _address(self) -> Address:
        return self.settings.servers[self._at % len(self.settings.servers)]

    def _move_on(self, failed: Address) -> None:
        """Use the next server, unless another call already moved on from `failed`."""
        if self._address() == failed:
            self._at = (self._at + 1) % len(self.settings.servers)

    async def _connected(self, address: Address) -> grpc.aio.Channel:
        """A channel that is ready, so that a call on it either arrives or is known not to have."""
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = _open(address, self.settings.tls)
        ready = channel.get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY
        if not ready:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.patience.connect):
                    ready = await _settled(channel)
        if not ready:
            raise _NotConnected(await self._nobody(address))
        if not self._reached:
            self.settings = once_started(self.settings)
        self._reached, self._told = True, False
        self._reasons.clear()
        return channel

    async def _nobody(self, address: Address) -> str:
        """What to say of a server that cannot be reached; the reason is looked for once."""
        if address not in self._reasons:
            self._reasons[address] = await why_not(address, self.settings.tls)
        how = (
            "with TLS; RAINBOW_CA names its authority, and http:// asks in plain text"
            if address.tls
            else "in plain text; https:// asks with TLS"
        )
        return (
            f"no Rainbow server answers at {address}: {self._reasons[address]} (asked {how}); "
            "start one with `rainbow server`, or give --server or RAINBOW_SERVER"
        )


def _may_ask_again(code: grpc.StatusCode, failure: RainbowError, *, twice: bool) -> bool:
    """True if it cannot have had an effect (a busy server turned it away), or may have one twice."""
    return isinstance(failure, Exhausted) or (code is grpc.StatusCode.UNAVAILABLE and twice)


async def _settled(channel: grpc.aio.Channel) -> bool:
    """Wait until the channel is ready or has failed to connect."""
    state = channel.get_state(try_to_connect=True)
    while state is not grpc.ChannelConnectivity.READY:
        if state in (grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN):
            return False
        await channel.wait_for_state_change(state)
        state = channel.get_state(try_to_connect=True)
    return True


def _bytes_of(message: Asked) -> bytes:
    return message.SerializeToString()


def _open(address: Address, tls: Tls) -> grpc.aio.Channel:
    if not address.tls:
        return grpc.aio.insecure_channel(address.target, options=OPTIONS)
    credentials = grpc.ssl_channel_credentials(_file(tls.ca), _file(tls.key), _file(tls.cert))
    return grpc.aio.secure_channel(address.target, credentials, options=OPTIONS)


def _file(path: str) -> bytes | None:
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise NotFound(f"cannot read {path} for TLS: {error.strerror}") from None


def _printable(text: str, what: str) -> str:
    if not _ASCII.issuperset(text):
        raise Invalid(f"{what} holds characters that cannot be sent; is there a line end in it?")
    return text
