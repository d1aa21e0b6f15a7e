"""A client's connection to its servers: channels, credentials, timeouts, retries and failover."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import os
import random
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import grpc

from rainbow_sched.client.settings import Address, ClientSettings, Tls, with_own_server_token
from rainbow_sched.client.statuses import error_of_call
from rainbow_sched.model.errors import Exhausted, Invalid, NotFound, RainbowError, Unauthenticated, Unavailable

MAX_RESPONSE_BYTES = 64 << 20  # bounds the memory of one response
PROBE_SECONDS = 2.0  # to find the cause after a connection has failed
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_RESPONSE_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),  # reconnect within a second after a restart
    ("grpc.keepalive_time_ms", 20_000),  # detect a dead connection within 30 s; our servers allow one ping per second
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),  # gRPC's default is one minute
    ("grpc.enable_http_proxy", 0),
)
_ASCII = frozenset(map(chr, range(0x20, 0x7F)))
_END_OF_STREAM: Any = grpc.aio.EOF  # type: ignore[attr-defined]  # missing in the stubs


class Message(Protocol):
    """The methods of a protobuf message that a call needs."""

    def SerializeToString(self) -> bytes: ...  # protobuf's name

    @classmethod
    def FromString(cls, data: bytes, /) -> Any: ...  # protobuf's name


RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)


class CallCredential(enum.Enum):
    """The credential that a call sends."""

    USER = "user"  # the bearer token, or else the clusters' submission tokens
    SUBMIT = "submit"  # the bearer token and the clusters' submission tokens
    CLUSTER = "cluster"  # the cluster's own secret, passed with the call
    REGISTRATION = "registration"


class Rpc(NamedTuple, Generic[RequestT, ResponseT]):
    """One call. An idempotent one has the same effect when it arrives twice, so it may be retried."""

    name: str  # Jobs/Submit
    request: type[RequestT]
    response: type[ResponseT]
    credential: CallCredential = CallCredential.USER
    idempotent: bool = True

    @property
    def path(self) -> str:
        return f"/rainbow.v2.{self.name}"


class Backoff(NamedTuple):
    """Exponential backoff with jitter."""

    first: float = 0.1
    cap: float = 5.0

    def delay(self, attempt: int, rng: random.Random) -> float:
        """Return the pause in seconds before retry `attempt` (from 0): between half and all of the doubled time."""
        longest = min(self.cap, self.first * 2.0 ** min(attempt, 30))
        return longest * (0.5 + rng.random() / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Timeouts of calls in seconds, and how long calls to an unreachable server are retried."""

    call: float = 30.0  # one unary call with all its retries
    upload: float = 600.0
    connect: float = 5.0
    unreachable: float = 3.0
    stream: float = 600.0  # a followed job continues after a restart of the server
    first_contact: float = 30.0  # instead of `stream`, while no server has been reached yet
    backoff: Backoff = field(default_factory=Backoff)


class _NotConnected(Exception):
    """No connection was made, so the call had no effect."""


class Connection:
    """Calls with retries and failover. All errors are classes of `model/errors.py`."""

    def __init__(
        self,
        settings: ClientSettings,
        *,
        timeouts: Timeouts | None = None,
        rng: random.Random | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.settings = settings
        self.timeouts = timeouts or Timeouts()
        self.rng = rng or random.Random()
        self.sleep = sleep
        self._channels: dict[Address, grpc.aio.Channel] = {}
        self._diagnoses: dict[Address, str] = {}  # why a server could not be reached
        self._current = 0  # index of the server in use
        self._reached = False  # True once any server was reached
        self._report_after = self.timeouts.unreachable  # shorter outages are not reported
        self._outage_reported = False
        self.on_unreachable: Callable[[float], None] = lambda seconds: None  # called with the time until giving up

    def outlast_restarts(self) -> None:
        """Retry calls from now on for as long as streams, to outlast a restart of the server."""
        self.timeouts = replace(self.timeouts, unreachable=self.timeouts.stream, call=self.timeouts.stream)

    def may_retry(self, outage: float, limit: float) -> bool:
        """Return True if an outage of `outage` seconds is below `limit`, which is lower before the first contact.

        An outage longer than a usual restart is reported once to `on_unreachable`.
        """
        if not self._reached:
            limit = min(limit, max(self.timeouts.first_contact, self._report_after))
        if not self._outage_reported and self._report_after < outage < limit:
            self._outage_reported = True
            self.on_unreachable(limit)
        return outage < limit

    async def close(self) -> None:
        """Close every channel; calls in progress are cancelled."""
        channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            await channel.close(None)

    async def call(
        self,
        rpc: Rpc[RequestT, ResponseT],
        request: RequestT,
        *,
        bearer: str | None = None,
        only: Iterable[str] = (),
        timeout: float | None = None,
    ) -> ResponseT:
        """Send one request and return the response. `bearer` replaces the configured credential."""

        def send(channel: grpc.aio.Channel, seconds: float) -> Awaitable[ResponseT]:
            metadata = self.metadata(rpc.credential, bearer=bearer, only=only)
            method = channel.unary_unary(rpc.path, _serialize, rpc.response.FromString)
            return method(request, timeout=seconds, metadata=metadata)

        return await self._with_retries(send, rpc, bearer, timeout or self.timeouts.call)

    async def upload(
        self, rpc: Rpc[RequestT, ResponseT], chunks: Callable[[], Iterable[RequestT]], *, bearer: str | None = None
    ) -> ResponseT:
        """Send a stream of chunks and return the response; `chunks` is called again for every retry."""

        def send(channel: grpc.aio.Channel, seconds: float) -> Awaitable[ResponseT]:
            metadata = self.metadata(rpc.credential, bearer=bearer)
            method = channel.stream_unary(rpc.path, _serialize, rpc.response.FromString)
            return method(iter(chunks()), timeout=seconds, metadata=metadata)

        return await self._with_retries(send, rpc, bearer, self.timeouts.upload)

    async def stream(
        self,
        rpc: Rpc[RequestT, ResponseT],
        request: RequestT,
        on_metadata: Callable[[dict[str, str]], None] | None = None,
    ) -> AsyncGenerator[ResponseT, None]:
        """Yield the messages of a server stream, without retries.

        A lost connection raises Unavailable; the next stream goes to the next server. `on_metadata` gets the stream's
        initial metadata before the first message.
        """
        address = self._address()
        try:
            channel = await self._connected(address)
            method = channel.unary_stream(rpc.path, _serialize, rpc.response.FromString)
            call = method(request, metadata=self.metadata(rpc.credential))
            try:
                if on_metadata is not None:
                    on_metadata({key: str(value) for key, value in await call.initial_metadata() or ()})
                # Not `async for`: its iterator would be left open when this generator is closed early.
                message: Any = await call.read()
                while message is not _END_OF_STREAM:
                    yield message
                    message = await call.read()
            finally:
                call.cancel()
        except _NotConnected as error:
            self._switch_server(address)
            raise Unavailable(str(error)) from None
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                self._switch_server(address)
            raise self._with_origin(error_of_call(error, server=str(address)), rpc.credential) from None

    def _with_origin(self, error: RainbowError, kind: CallCredential) -> RainbowError:
        """Add the origin of the refused credential to an Unauthenticated error."""
        if not isinstance(error, Unauthenticated) or kind is CallCredential.CLUSTER:
            return error
        registering = kind is CallCredential.REGISTRATION
        sent = self.settings.describe_credentials(registering=registering)
        advice = "registering needs RAINBOW_REGISTRATION_SECRET" if registering else "save one with: rainbow login"
        return Unauthenticated(f"{error} ({f'sent: {sent}' if sent else advice})")

    def metadata(
        self, kind: CallCredential, *, bearer: str | None = None, only: Iterable[str] = ()
    ) -> tuple[tuple[str, str], ...]:
        """Return the credentials that a call of this kind sends."""
        settings = self.settings
        configured = {
            CallCredential.USER: settings.token,
            CallCredential.SUBMIT: settings.token,
            CallCredential.CLUSTER: settings.secret_for(settings.cluster),
            CallCredential.REGISTRATION: settings.registration_secret or settings.token,
        }[kind]
        token = configured if bearer is None else bearer
        pairs = [("authorization", f"Bearer {_printable(token, 'the credential')}")] if token else []
        if kind is CallCredential.SUBMIT or (kind is CallCredential.USER and not token):
            wanted = set(only) or settings.cluster_tokens.keys()
            pairs += [
                ("rainbow-cluster-token", _printable(f"{name}={secret}", f"the token of {name}"))
                for name, secret in settings.cluster_tokens.items()
                if name in wanted
            ]
        return tuple(pairs)

    async def _with_retries(
        self,
        send: Callable[[grpc.aio.Channel, float], Awaitable[ResponseT]],
        rpc: Rpc[RequestT, ResponseT],
        bearer: str | None,
        seconds: float,
    ) -> ResponseT:
        loop = asyncio.get_running_loop()
        began, attempts = loop.time(), 0
        while True:
            address = self._address()
            left = seconds - (loop.time() - began)
            try:
                channel = await self._connected(address)
                return await send(channel, max(left, 0.001))
            except _NotConnected as error:
                failure: RainbowError = Unavailable(str(error))
            except grpc.aio.AioRpcError as error:
                failure = error_of_call(error, server=str(address))
                retryable = rpc.idempotent and error.code() is grpc.StatusCode.UNAVAILABLE
                if not retryable and not isinstance(failure, Exhausted):  # Exhausted: rejected before it had an effect
                    raise (failure if bearer is not None else self._with_origin(failure, rpc.credential)) from None
            self._switch_server(address)
            attempts += 1
            retries = attempts - len(self.settings.servers)  # every server is tried once before the first pause
            pause = 0.0 if retries < 0 else self.timeouts.backoff.delay(retries, self.rng)
            if isinstance(failure, Exhausted):
                pause = max(pause, failure.retry_after * (1 + self.rng.random() / 2))
            outage = loop.time() - began + pause
            if retries >= 0 and not self.may_retry(outage, min(self.timeouts.unreachable, seconds)):
                raise failure
            await self.sleep(pause)

    def _address(self) -> Address:
        return self.settings.servers[self._current % len(self.settings.servers)]

    def _switch_server(self, failed: Address) -> None:
        """Use the next server, unless another call already switched away from `failed`."""
        if self._address() == failed:
            self._current = (self._current + 1) % len(self.settings.servers)

    async def _connected(self, address: Address) -> grpc.aio.Channel:
        """Return a ready channel, to distinguish a failure to connect from a failed call."""
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = _open_channel(address, self.settings.tls)
        ready = channel.get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY
        if not ready:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.timeouts.connect):
                    ready = await _wait_until_ready(channel)
        if not ready:
            raise _NotConnected(await self._unreachable_message(address))
        if not self._reached:
            self.settings = with_own_server_token(self.settings)
        self._reached, self._outage_reported = True, False
        self._diagnoses.clear()
        return channel

    async def _unreachable_message(self, address: Address) -> str:
        if address not in self._diagnoses:
            self._diagnoses[address] = await diagnose(address, self.settings.tls)
        how = (
            "with TLS; RAINBOW_CA names its authority, and http:// connects in plain text"
            if address.tls
            else "in plain text; https:// connects with TLS"
        )
        return (
            f"no Rainbow server answers at {address}: {self._diagnoses[address]} (tried {how}); "
            "start one with `rainbow server`, or give --server or RAINBOW_SERVER"
        )


async def diagnose(address: Address, tls: Tls) -> str:
    """Return why a server cannot be reached, learned from a plain socket: gRPC reports no reason."""
    try:
        context = _ssl_context(tls) if address.tls else None
    except OSError as error:  # also what ssl raises
        return f"{tls.ca or tls.cert} cannot be used as a certificate: {error.strerror or error}"
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            _, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
    except TimeoutError:
        return "the connection timed out"
    except ssl.SSLCertVerificationError as error:
        return f"its certificate is not accepted: {error.verify_message.rstrip('.')}"
    except ssl.SSLError:
        return "the process that listens there does not use TLS"
    except OSError as error:
        if error.errno is None:  # asyncio's own error after several failed addresses
            return "the connection failed"
        return os.strerror(error.errno) if error.errno > 0 else str(error.strerror)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return "the process that listens there is not a Rainbow server" + ("" if address.tls else ", or uses TLS")


def _ssl_context(tls: Tls) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.ca or None)
    context.set_alpn_protocols(["h2"])
    if tls.cert:
        context.load_cert_chain(tls.cert, tls.key)
    return context


async def _wait_until_ready(channel: grpc.aio.Channel) -> bool:
    """Wait until the channel is ready or has failed to connect; return True if it is ready."""
    state = channel.get_state(try_to_connect=True)
    while state is not grpc.ChannelConnectivity.READY:
        if state in (grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN):
            return False
        await channel.wait_for_state_change(state)
        state = channel.get_state(try_to_connect=True)
    return True


def _serialize(message: RequestT) -> bytes:
    return message.SerializeToString()


def _open_channel(address: Address, tls: Tls) -> grpc.aio.Channel:
    if not address.tls:
        return grpc.aio.insecure_channel(address.target, options=CHANNEL_OPTIONS)
    credentials = grpc.ssl_channel_credentials(_read_file(tls.ca), _read_file(tls.key), _read_file(tls.cert))
    return grpc.aio.secure_channel(address.target, credentials, options=CHANNEL_OPTIONS)


def _read_file(path: str) -> bytes | None:
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise NotFound(f"cannot read the TLS file {path}: {error.strerror}") from None


def _printable(text: str, what: str) -> str:
    if not _ASCII.issuperset(text):
        raise Invalid(f"{what} contains characters that cannot be sent; does it contain a line end?")
    return text
