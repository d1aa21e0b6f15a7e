"""`rainbow server`: run the scheduler in the foreground."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rainbow_sched.cli.commands.server_admin import admin_token
from rainbow_sched.cli.commands.server_backup import backup, restore
from rainbow_sched.cli.commands.server_init import init
from rainbow_sched.cli.input.options import pairs
from rainbow_sched.cli.shell.lazy_group import Commands

if TYPE_CHECKING:
    from rainbow_sched.client.config import Config

Command = TypeVar("Command", bound=Callable[..., Any])

EPILOG = """\b
The registration secret, which admits clusters, comes from RAINBOW_REGISTRATION_SECRET
or the config's scheduler.secret; without either the server makes one at its first
start and says in which file it keeps it. There is no default secret.

\b
Examples:
  rainbow server
  rainbow server --listen 127.0.0.1:0 --db sqlite:////var/lib/rainbow/rainbow.db
  rainbow server --listen 0.0.0.0:50051 --tls-cert server.pem --tls-key server.key
  rainbow server --db postgresql://rainbow@db/rainbow --policy weighted \\
      --policy-option 'weights=0.6*start + 0.4*cost'
"""


def _file(help: str, *names: str) -> Callable[[Command], Command]:
    return click.option(*names, type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE", help=help)


@click.group(cls=Commands, epilog=EPILOG, invoke_without_command=True)
@click.option(
    "--listen", "--host", default="127.0.0.1:50051", show_default=True, metavar="HOST:PORT", help="Where to listen."
)
@click.option(
    "--db", default="", metavar="URL", help="sqlite:///FILE or postgresql://... (default: SQLite in the data dir)."
)
@click.option(
    "--config", "--config-path", "config_path", metavar="FILE", help="rainbow-config.yaml: secret, policy, graphs."
)
@click.option(
    "--data-dir", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Database and secrets."
)
@click.option(
    "--policy",
    "--select",
    "--select-algorithm",
    "policy",
    metavar="NAME",
    help="How to choose among clusters that fit.",
)
@click.option("--policy-option", "options", multiple=True, metavar="K=V", help="Option of the policy; repeatable.")
@click.option("--graph-database", "graph", metavar="NAME", help="Graph backend: memory (default) or cypher.")
@_file("Certificate, for TLS.", "--tls-cert", "--cert")
@_file("Its key.", "--tls-key", "--key")
@_file("Authority: clients must show a certificate signed by it.", "--tls-ca", "--ca-cert")
@click.option("--insecure", is_flag=True, help="Plain text beyond this machine; everything can be read on the way.")
@click.option(
    "--allow-anonymous-satisfy", "anonymous", is_flag=True, help="The prototype's Satisfy without credentials."
)
@click.option(
    "--log-level",
    "--loglevel",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="How much to log to stderr.",
)
@click.pass_context
def server(
    ctx: click.Context,
    listen: str,
    db: str,
    config_path: str | None,
    data_dir: Path | None,
    policy: str | None,
    options: tuple[str, ...],
    graph: str | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    tls_ca: Path | None,
    insecure: bool,
    anonymous: bool,
    log_level: str,
) -> None:
    """Run the scheduler until SIGTERM or ^C. Its port opens when it can serve; beyond this machine only with TLS."""
    if ctx.invoked_subcommand is not None:
        return
    from rainbow_sched.cli.shell.messages import say
    from rainbow_sched.client.config import Config, load
    from rainbow_sched.client.private_files import open_to_others
    from rainbow_sched.server.main import serve
    from rainbow_sched.server.options import ServerOptions, limits_from, oidc_from

    config = load(Path(config_path)) if config_path else Config()
    if config.text("scheduler", "secret") and config.path is not None and open_to_others(config.path):
        say(f"warning: {config.path} holds a secret and others on this machine can read it; chmod 600 it")
    serve(
        ServerOptions(
            listen=listen,
            db=db,
            data_dir=data_dir or default_data_dir(),
            policy=policy or _configured_policy(config),
            policy_options=pairs(options, "--policy-option") or ({} if policy else _policy_options(config)),
            graph_backend=graph or config.text("graphdatabase", "name") or "memory",
            graph_options=_graph_options(config),
            registration_secret=config.text("scheduler", "secret"),
            tls_cert=tls_cert,
            tls_key=tls_key,
            tls_ca=tls_ca,
            insecure=insecure,
            anonymous_satisfy=anonymous,
            log_level=log_level,
            limits=limits_from(config.section("limits")),
            oidc=oidc_from(config.section("oidc")),
            timing=config.section("scheduler", "timing"),
            counts=config.section("scheduler", "counts"),
        )
    )


server.add_command(init)
server.add_command(admin_token)
server.add_command(backup)
server.add_command(restore)


def default_data_dir() -> Path:
    """Where the database and the secrets lie unless --data-dir says otherwise."""
    import platformdirs

    return Path(platformdirs.user_data_dir("rainbow", appauthor=False))


def _configured_policy(config: Config) -> str:
    return config.text("scheduler", "algorithms", "selection", "name")


def _policy_options(config: Config) -> dict[str, str]:
    return _texts(config.section("scheduler", "algorithms", "selection", "options"))


def _graph_options(config: Config) -> dict[str, str]:
    """The backend's own; two of the prototype's stand there, too, and are not for it."""
    options = _texts(config.section("graphdatabase", "options"))
    return {key: value for key, value in options.items() if key not in ("host", "backupFile")}


def _texts(section: Mapping[str, object]) -> dict[str, str]:
    return {str(key): str(value) for key, value in section.items()}
