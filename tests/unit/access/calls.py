"""Short calls to the world's server for tests of access."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pool, message_factory
from grpc import aio

from tests.support.calls import bearer


async def ask(channel: aio.Channel, path: str, token: str, /, timeout: float = 20, **fields: Any) -> Any:
    """One unary call of rainbow.v2: `ask(channel, "Access/WhoAmI", token)`; fields are the message's own."""
    method, read, write = _method(f"rainbow.v2.{path}")
    request = message_factory.GetMessageClass(method.input_type)(**fields)
    stub = channel.unary_unary(f"/rainbow.v2.{path}", request_serializer=write, response_deserializer=read)
    return await stub(request, metadata=bearer(token) if token else [], timeout=timeout)


def follow(channel: aio.Channel, path: str, token: str, /, **fields: Any) -> Any:
    """One stream of rainbow.v2."""
    method, read, write = _method(f"rainbow.v2.{path}")
    request = message_factory.GetMessageClass(method.input_type)(**fields)
    stub = channel.unary_stream(f"/rainbow.v2.{path}", request_serializer=write, response_deserializer=read)
    return stub(request, metadata=bearer(token), timeout=20)


async def code_of(call: Any) -> str:
    """The status that a call ends with."""
    try:
        await call
    except aio.AioRpcError as error:
        return error.code().name
    return "OK"


def _method(name: str) -> tuple[Any, Any, Any]:
    service, _, method = name.partition("/")
    found = descriptor_pool.Default().FindServiceByName(service).methods_by_name[method]
    read = message_factory.GetMessageClass(found.output_type).FromString
    return found, read, message_factory.GetMessageClass(found.input_type).SerializeToString
