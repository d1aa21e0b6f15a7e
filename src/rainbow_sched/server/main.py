"""Run a server: open the store, load the fleet, open the port; drain on SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import logging
import os
import signal
import socket
import sys
from typing import Any

from grpc import aio
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from rainbow_sched.model.errors import RainbowError, Unavailable
from rainbow_sched.pb.prototype import memory_pb2, memory_pb2_grpc, rainbow_pb2, rainbow_pb2_grpc
from rainbow_sched.pb.v2 import (
    access_pb2,
    access_pb2_grpc,
    agents_pb2,
    agents_pb2_grpc,
    clusters_pb2,
    clusters_pb2_grpc,
    jobs_pb2,
    jobs_pb2_grpc,
)
from rainbow_sched.server.admission.calls import MAX_BULK_MESSAGE_BYTES
from rainbow_sched.server.admission.connections import ConnectionLimiter, raise_descriptor_limit
from rainbow_sched.server.admission.limits import AdmissionLimits
from rainbow_sched.server.admission.pipeline import AdmissionPipeline
from rainbow_sched.server.codec import SubmissionReader
from rainbow_sched.server.handlers.access import AccessHandler
from rainbow_sched.server.handlers.agents import AgentsHandler
from rainbow_sched.server.handlers.clusters import ClustersHandler
from rainbow_sched.server.handlers.jobs import JobsHandler
from rainbow_sched.server.handlers.prototype import GraphHandler, SchedulerHandler
from rainbow_sched.server.oidc import OidcVerifier
from rainbow_sched.server.options import ServerOptions, registration_secret, split_address, write_secret
from rainbow_sched.server.restore import ADMIN_FILE, check_database, check_file
from rainbow_sched.server.tls import CertificateReloader
from rainbow_sched.service.access.accounts import ensure_administrator, first_administrator
from rainbow_sched.service.assembly import Service, assemble
from rainbow_sched.service.clock import AnchoredClock
from rainbow_sched.service.maintenance.generations import GenerationHistory
from rainbow_sched.service.random_ids import Ids
from rainbow_sched.service.settings import Settings
from rainbow_sched.store.base import Store
from rainbow_sched.store.claim import Claim
from rainbow_sched.store.factory import open_claimed
from rainbow_sched.store.mark_file import MarkFile

log = logging.getLogger("rainbow.server")
DRAIN_SECONDS = 5.0  # for active calls after a SIGTERM
LINGER_SECONDS = 1.0  # a replaced server responds with an error before it closes the port
SWITCH_INTERVAL_SECONDS = 0.0005  # with the default of 5 ms the writer waits that long after every statement
GC_THRESHOLD = 10_000  # objects; most objects of a call are freed long before

_SERVICES = (
    jobs_pb2.DESCRIPTOR.services_by_name["Jobs"],
    clusters_pb2.DESCRIPTOR.services_by_name["Clusters"],
    agents_pb2.DESCRIPTOR.services_by_name["Agents"],
    access_pb2.DESCRIPTOR.services_by_name["Access"],
    rainbow_pb2.DESCRIPTOR.services_by_name["RainbowScheduler"],
    memory_pb2.DESCRIPTOR.services_by_name["MemoryGraph"],
)


def serve(options: ServerOptions) -> None:
    """Run until a signal stops the server; raise a RainbowError if it cannot start."""
    options.check()
    os.umask(0o077)  # database, WAL and secrets are readable only by the server's user
    logging.basicConfig(
        level=options.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    gc.set_threshold(GC_THRESHOLD)
    logging.getLogger("grpc._cython.cygrpc").addFilter(_without_headers)
    try:
        import uvloop
    except ImportError:
        asyncio.run(_serve(options))
    else:
        uvloop.run(_serve(options))


def _without_headers(record: logging.LogRecord) -> bool:
    """Filter gRPC's log lines about invalid headers, which may contain a credential."""
    return "Invalid encoding" not in record.getMessage()


async def _serve(options: ServerOptions) -> None:
    options.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    running = await RunningServer.start(options)
    gc.freeze()  # exclude the fleet and the queue, which may hold a million jobs, from garbage collection
    log.info("listening on %s", running.address)
    stopping, replaced = asyncio.create_task(stop.wait()), asyncio.create_task(running.claim.wait_replaced())
    await asyncio.wait({stopping, replaced}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if replaced.done():
        log.error("%s", replaced.result())
        await running.stop_replaced()
        raise replaced.result()
    replaced.cancel()
    log.info("stopping: active calls may finish")
    await running.stop()


class RunningServer:
    def __init__(
        self, service: Service, admission: AdmissionPipeline, server: aio.Server, alive: Any, address: str, claim: Claim
    ) -> None:
        self.service, self.admission, self.address, self.claim = service, admission, address, claim
        self._server, self._alive = server, alive

    @staticmethod
    async def start(options: ServerOptions) -> RunningServer:
        """Start all parts; open the port last, when calls can be served."""
        check_file(options)
        store, claim = await open_claimed(options.database())
        try:
            return await RunningServer._start(options, store, claim)
        except BaseException:
            await store.close()  # releases the claim, so that the next start need not wait for its expiry
            raise

    @staticmethod
    async def _start(options: ServerOptions, store: Store, claim: Claim) -> RunningServer:
        await check_database(store, options)
        clock, ids = AnchoredClock(), Ids()
        secret, secret_file = registration_secret(options)
        if secret_file is not None:
            log.info("the secret for registering clusters is in %s", secret_file)
        elif len(secret) < 16:
            log.warning("the registration secret has fewer than 16 characters; it can be guessed")
        admin = await first_administrator(store, ids, clock.now())
        if admin is not None:
            path = options.data_dir / ADMIN_FILE
            write_secret(path, admin)
            log.info("first start: the administrator's token is in %s", path)
        service = await assemble(store, _settings(options), clock, ids, secret)
        claim.mark_file = MarkFile(options.data_dir)
        claim.mark_file.begin(service.core.history.now, await store.read(lambda tx: tx.last_seq()))
        _log_restore(service.core.history)
        if admin is not None:
            await ensure_administrator(service.core)
        if options.oidc is not None:
            service.core.credential_resolver.identity_provider = OidcVerifier(options.oidc).identify
        admission = AdmissionPipeline(service.core, limits=options.limits, anonymous_satisfy=options.anonymous_satisfy)
        admission.claim = claim
        server, alive = _listen(service, admission, options.limits)
        address = _bind(server, options)
        admission.connections = ConnectionLimiter(
            int(address.rpartition(":")[2]),
            unauthenticated=int(options.limits.strangers),
            per_address=int(options.limits.connections_per_address),
        )
        await server.start()
        service.start()
        admission.start()
        return RunningServer(service, admission, server, alive, address, claim)

    async def stop(self) -> None:
        """Report NOT_SERVING, end long polls and streams, finish other calls, close the store."""
        await self._alive.enter_graceful_shutdown()
        self.service.core.notifier.close()
        await self._server.stop(DRAIN_SECONDS)
        await self.admission.stop()
        await self.service.stop()

    async def stop_replaced(self) -> None:
        """Stop after another server has taken the claim: write nothing, and reject calls for a moment."""
        await self._alive.enter_graceful_shutdown()
        self.service.core.notifier.close()
        await asyncio.sleep(LINGER_SECONDS)
        await self._server.stop(LINGER_SECONDS)
        with contextlib.suppress(RainbowError):  # its writes are rejected
            await self.admission.stop()
        await self.service.stop()


def _log_restore(history: GenerationHistory) -> None:
    """After a restore, log which clusters have not reported yet."""
    awaited = [row.cluster for row in history.clusters.values() if row.state.holds_jobs]
    if awaited:
        log.warning(
            "the database was restored: jobs from before wait until these clusters have reported: %s; "
            "see `rainbow restored`",
            ", ".join(awaited),
        )


def _settings(options: ServerOptions) -> Settings:
    changes: dict[str, Any] = {**options.seconds(), **options.numbers()}
    if options.policy:
        changes["policy"] = options.policy
    return Settings(
        policy_options=options.policy_options,
        graph_backend=options.graph_backend,
        graph_options=options.graph_options,
        queued_per_owner=int(options.limits.queued),
        **changes,
    )


def _listen(service: Service, admission: AdmissionPipeline, limits: AdmissionLimits) -> tuple[aio.Server, Any]:
    core = service.core
    server = aio.server(
        options=(
            ("grpc.max_receive_message_length", MAX_BULK_MESSAGE_BYTES),
            ("grpc.max_send_message_length", MAX_BULK_MESSAGE_BYTES),
            ("grpc.so_reuseport", 0),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.keepalive_time_ms", 60_000),  # detects clients that vanished
            ("grpc.http2.ping_timeout_ms", 20_000),
            # Clients ping every 20 s; after a pause a server receives several pings at once.
            ("grpc.http2.min_recv_ping_interval_without_data_ms", 1_000),
            ("grpc.http2.max_ping_strikes", 10),
            ("grpc.max_metadata_size", 64 * 1024),
            ("grpc.max_allowed_incoming_connections", raise_descriptor_limit(int(limits.connections))),
            ("grpc.max_concurrent_streams", 1_000),  # per connection; a client queues more
            ("grpc.server_handshake_timeout_ms", 10_000),
            ("grpc.max_connection_idle_ms", 600_000),
        ),
    )
    jobs_pb2_grpc.add_JobsServicer_to_server(JobsHandler(service, SubmissionReader(core.requests)), admission)
    clusters_pb2_grpc.add_ClustersServicer_to_server(ClustersHandler(core), admission)
    agents_pb2_grpc.add_AgentsServicer_to_server(AgentsHandler(service), admission)
    access_pb2_grpc.add_AccessServicer_to_server(AccessHandler(core), admission)
    rainbow_pb2_grpc.add_RainbowSchedulerServicer_to_server(SchedulerHandler(service), admission)
    memory_pb2_grpc.add_MemoryGraphServicer_to_server(GraphHandler(service), admission)
    alive = health.aio.HealthServicer()  # type: ignore[attr-defined]  # the stubs do not know it
    health_pb2_grpc.add_HealthServicer_to_server(alive, admission)
    names = [descriptor.full_name for descriptor in _SERVICES]
    names += [health.SERVICE_NAME, reflection.SERVICE_NAME]
    reflecting = reflection.aio.ReflectionServicer(names)  # type: ignore[attr-defined]  # nor this
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(reflecting, admission)
    server.add_generic_rpc_handlers((admission,))
    return server, alive


def _bind_error(listen: str) -> str:
    """Return why the address cannot be bound, which gRPC does not report."""
    host, port = split_address(listen)
    try:
        found = socket.getaddrinfo(host or "::", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(address)
            probe.listen()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return "the port is in use; is another server running?"
        return str(error.strerror or error)
    return "it could not be bound"


def _bind(server: aio.Server, options: ServerOptions) -> str:
    host, _ = split_address(options.listen)
    target = options.listen if host else f"[::]{options.listen}"
    try:
        files = options.tls_files()
        if files is None:
            port = server.add_insecure_port(target)
        else:
            port = server.add_secure_port(target, CertificateReloader(files).credentials())
    except RuntimeError:
        raise Unavailable(f"cannot listen on {options.listen}: {_bind_error(options.listen)}") from None
    return f"{host or '[::]'}:{port}"
