"""A process that writes until it is killed and prints what was acknowledged: python -m ... URL OWNER."""

from __future__ import annotations

import asyncio
import sys

from rainbow_sched.store import Store, open_store
from tests.contract.store.builders import a_draft

WRITERS = 8


async def keep_writing(store: Store, writer: int) -> None:
    for n in range(1_000_000):
        key = f"{writer}-{n}"
        draft = a_draft(client_token=key, spec=f'{{"key":"{key}"}}', owner=sys.argv[2])
        (id,) = await store.write(lambda tx, draft=draft: tx.add_jobs([draft]))
        sys.stdout.write(f"{id} {key}\n")
        sys.stdout.flush()


async def main() -> None:
    store = await open_store(sys.argv[1])
    await asyncio.gather(*[keep_writing(store, writer) for writer in range(WRITERS)])


asyncio.run(main())
