"""Why nobody answers: gRPC says only that it could not connect, so one plain connection is made to learn the reason."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl

from rainbow_sched.client.settings import Address, Tls

LONGEST = 2.0  # seconds


async def why_not(address: Address, tls: Tls) -> str:
    """The reason in a few words."""
    try:
        context = _context(tls) if address.tls else None
    except OSError as error:  # also what ssl raises
        return f"{tls.ca or tls.cert} cannot be used as a certificate: {error.strerror or error}"
    try:
        async with asyncio.timeout(LONGEST):
            _, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
    except TimeoutError:
        return "nothing came back"
    except ssl.SSLCertVerificationError as error:
        return f"its certificate is not accepted: {error.verify_message.rstrip('.')}"
    except ssl.SSLError:
        return "what listens there does not speak TLS"
    except OSError as error:
        return _said(error)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return "what listens there is no Rainbow server" + ("" if address.tls else ", or speaks TLS")


def _said(error: OSError) -> str:
    """The system's words; asyncio has its own for a connection that fails, and for several that do."""
    if error.errno is None:
        return "it cannot be connected to"
    return os.strerror(error.errno) if error.errno > 0 else str(error.strerror)


def _context(tls: Tls) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.ca or None)
    context.set_alpn_protocols(["h2"])
    if tls.cert:
        context.load_cert_chain(tls.cert, tls.key)
    return context
