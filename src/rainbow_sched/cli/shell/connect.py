"""What a command needs to reach the server: settings made from its flags, and a client for as long as it runs."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

if TYPE_CHECKING:
    from rainbow_sched.client import AsyncClient
    from rainbow_sched.client.settings import ClientSettings

R = TypeVar("R")
Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Link:
    """The flags that every command takes to find its server."""

    server: str | None = None
    config_path: str | None = None
    token_file: str | None = None

    def settings(self, *, new_config: bool = False) -> ClientSettings:
        """The settings in force. Warns when the config file, which holds secrets, is open to others.

        `new_config`: the command writes the config file, so it need not be there yet.
        """
        from rainbow_sched.cli.shell.messages import say
        from rainbow_sched.client.private_files import open_to_others
        from rainbow_sched.client.settings import Overrides, read_secret, resolve

        token = read_secret(self.token_file, "a token") if self.token_file else None
        settings = resolve(
            Overrides(server=self.server, config_path=self.config_path, token=token, new_config=new_config)
        )
        path = settings.config.path
        if path is not None and path.exists() and open_to_others(path):
            say(f"warning: {path} holds secrets and others on this machine can read it; run: chmod 600 {path}")
        return settings

    def ask(self, question: Callable[[AsyncClient], Awaitable[R]], settings: ClientSettings | None = None) -> R:
        """Ask with a client that is closed afterwards."""
        chosen = settings or self.settings()

        async def asking() -> R:
            from rainbow_sched.cli.render.times import short
            from rainbow_sched.cli.shell.messages import say
            from rainbow_sched.client import AsyncClient

            async with AsyncClient(settings=chosen) as client:
                where = ", ".join(map(str, chosen.servers))
                client.connection.on_unreachable = lambda seconds: say(
                    f"no server answers at {where}; it is tried again for {short(seconds)}"
                )
                return await question(client)

        return run(asking())


def run(asked: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine to its end."""
    import asyncio  # 30 ms that no --help needs

    return asyncio.run(asked)


def connected(command: Command) -> Command:
    """Give a command the flags that find its server, as one argument `link`."""

    @click.option(
        "--server",
        "--host",
        metavar="HOST:PORT[,...]",
        help="Server, or several to try in turn. Loopback is plain text, others TLS; http:// forces plain text.",
    )
    @click.option("--config-path", "--config", metavar="FILE", help="Config file (default: see rainbow config show).")
    @click.option("--token-file", metavar="FILE", help="File that holds your token; or set RAINBOW_TOKEN.")
    @functools.wraps(command)
    def with_link(
        *args: Any, server: str | None, config_path: str | None, token_file: str | None, **kwargs: Any
    ) -> Any:
        return command(*args, link=Link(server, config_path, token_file), **kwargs)

    return cast(Command, with_link)
