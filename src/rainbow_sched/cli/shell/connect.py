"""Connection options of the commands, and a client made from them."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import click

from rainbow_sched.cli.render.terminal import print_message
from rainbow_sched.cli.render.times import format_duration
from rainbow_sched.cli.shell.lazy_group import importing

if TYPE_CHECKING:
    from rainbow_sched.client.async_client import AsyncClient
    from rainbow_sched.client.jobs import JobClient
    from rainbow_sched.client.settings import ClientSettings

R = TypeVar("R")
ClientT = TypeVar("ClientT", bound="JobClient")
Command = TypeVar("Command", bound=Callable[..., Any])


class Connector(NamedTuple):
    """The connection options of a command."""

    server: str | None = None
    config_path: str | None = None
    token_file: str | None = None

    def settings(self, *, new_config: bool = False) -> ClientSettings:
        """Return the settings; warn if other users can read the config file, which holds secrets.

        `new_config`: the command writes the config file, so it need not exist yet.
        """
        from rainbow_sched.client.settings import Overrides, read_secret, resolve

        token = read_secret(self.token_file, "a token") if self.token_file else None
        settings = resolve(
            Overrides(server=self.server, config_path=self.config_path, token=token, new_config=new_config)
        )
        if settings.config.exposed():
            path = settings.config.path
            print_message(
                f"warning: {path} holds secrets and others on this machine can read it; run: chmod 600 {path}"
            )
        return settings

    def call(self, use: Callable[[AsyncClient], Awaitable[R]], settings: ClientSettings | None = None) -> R:
        """Run a coroutine function with a connected client, and return its result."""
        with importing():
            from rainbow_sched.client.async_client import AsyncClient

        settings = settings or self.settings()
        return _run(use, AsyncClient(settings=settings))

    def call_each(
        self,
        names: Iterable[str],
        use: Callable[[AsyncClient, str], Awaitable[R]],
        text: Callable[[str, R], str],
    ) -> None:
        """Call `use` for one name after the other, and print the text for each result."""

        async def each(client: AsyncClient) -> None:
            for name in names:
                click.echo(text(name, await use(client, name)))

        self.call(each)

    def call_jobs(self, use: Callable[[JobClient], Awaitable[R]]) -> R:
        """Do the same with a client that has only the methods for jobs, and starts faster."""
        with importing():
            from rainbow_sched.client.connection import Connection
            from rainbow_sched.client.jobs import JobClient

        return _run(use, JobClient(Connection(self.settings())))


def _run(use: Callable[[ClientT], Awaitable[R]], client: ClientT) -> R:
    import asyncio  # takes 30 ms, which --help does not need

    servers = ", ".join(map(str, client.connection.settings.servers))
    client.connection.on_unreachable = lambda seconds: print_message(
        f"no server answers at {servers}; retrying for {format_duration(seconds)}"
    )

    async def run() -> R:
        try:
            return await use(client)
        finally:
            await client.connection.close()

    return asyncio.run(run())


def connected(command: Command) -> Command:
    """Add the connection options to a command, as one argument `connector`."""

    @click.option(
        "--server",
        "--host",
        metavar="HOST:PORT[,...]",
        help="Server, or several to try in turn. Uses TLS, except for localhost or with http://.",
    )
    @click.option("--config-path", "--config", metavar="FILE", help="Config file (default: see rainbow config show).")
    @click.option("--token-file", metavar="FILE", help="File with your token; or set RAINBOW_TOKEN.")
    @functools.wraps(command)
    def with_connector(
        *args: Any, server: str | None, config_path: str | None, token_file: str | None, **kwargs: Any
    ) -> Any:
        return command(*args, connector=Connector(server, config_path, token_file), **kwargs)

    return cast(Command, with_connector)
