"""The commands `rainbow agent` and `rainbow agent install`."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rainbow_sched.agent.options import AgentOptions, credential, need_credential, opened, refuse_root
from rainbow_sched.model.cluster import cluster_name
from rainbow_sched.model.errors import Invalid

if TYPE_CHECKING:
    from rainbow_sched.client.settings import ClientSettings

EPILOG = """\b
The agent connects to the server; it needs no open port and no rights beyond its user's.
Jobs continue when it stops, and the next start finds them. Its credential comes from
--secret-file, RAINBOW_AGENT_SECRET, its state directory, or the config file.

\b
Examples:
  RAINBOW_REGISTRATION_SECRET=... rainbow agent --cluster here --register auto
  rainbow agent --cluster here --accept 'nodes <= 4 && labels.team == "bio"'
  rainbow agent install --cluster here
"""


@click.group(invoke_without_command=True, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--cluster", metavar="NAME", help="The agent's cluster (default: the config file's).")
@click.option("--server", "--host", metavar="HOST:PORT[,...]", help="One or more servers, tried in order.")
@click.option("--config-path", "--config", metavar="FILE", help="Config file.")
@click.option("--backend", default="local", show_default=True, metavar="NAME", help="Manager that runs the jobs.")
@click.option("-O", "--backend-option", "backend_options", multiple=True, metavar="KEY=VALUE", help="Backend option.")
@click.option("--state-dir", metavar="DIR", help="Directory of journal and jobs (default: in the user's state folder).")
@click.option("--secret-file", default="", metavar="FILE", help="File that holds the cluster's secret (mode 0600).")
@click.option("--renew-secret", default="30d", show_default=True, metavar="TIME|never", help="Interval of new secrets.")
@click.option("--graph", default="", metavar="FILE", help="Run jobs within this graph.")
@click.option(
    "--register",
    is_flag=False,
    flag_value="auto",
    default="",
    metavar="[FILE|auto]",
    help="Register the cluster first if it has no credential; without a value: auto.",
)
@click.option("--max-jobs", default=64, show_default=True, metavar="N", help="Maximum number of jobs at a time.")
@click.option("--accept", default="", metavar="EXPR", help="Accept only jobs for which EXPR is true.")
@click.option("--order", default="", metavar="EXPR", help="Prefer jobs with the highest value of EXPR, e.g. -nodes.")
@click.option("--allow", multiple=True, metavar="USER[,...]", help="Run jobs of these users only.")
@click.option("--allowed-signers", default="", metavar="FILE", help="Run only jobs signed with a key in this file.")
@click.option("--price-core-hour", default=0.0, metavar="X", help="Price of a core per hour.")
@click.option("--price-node-hour", default=0.0, metavar="X", help="Price of a node per hour.")
@click.option("--price-gpu-hour", default=0.0, metavar="X", help="Price of a gpu per hour.")
@click.option(
    "--rediscover", default=600.0, metavar="SECONDS", help="Interval of checks for changes of the cluster; 0: never."
)
@click.option("--once", is_flag=True, help="Exit when nothing is left to do.")
@click.option("--run-as-root", is_flag=True, help="Allow running the agent and all jobs as root.")
@click.option("-q", "--quiet", is_flag=True, help="Log warnings and errors only.")
@click.pass_context
def agent(ctx: click.Context, /, server: str | None, config_path: str | None, quiet: bool, **given: Any) -> int:
    """Run the agent of a cluster: take its jobs, run them, report."""
    if ctx.invoked_subcommand is not None:
        return 0
    from rainbow_sched.client.settings import Overrides, resolve
    from rainbow_sched.installation import require_extra

    require_extra("agent", "the agent")
    settings = resolve(Overrides(server=server, config_path=config_path))
    options = _options(given, settings)
    refuse_root(options, os.geteuid())
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.WARNING if quiet else logging.INFO,
        format=f"%(asctime)s agent {options.cluster}: %(message)s",
    )
    asyncio.run(_run(options, settings))
    return 0


def _options(given: dict[str, Any], settings: ClientSettings) -> AgentOptions:
    import platformdirs

    from rainbow_sched.agent.backends.base import Prices
    from rainbow_sched.model.quantities import parse_duration

    cluster = given.pop("cluster") or settings.cluster
    if not cluster:
        raise Invalid("give the agent's cluster with --cluster NAME")
    prices = Prices(**{f"{kind}_hour": given.pop(f"price_{kind}_hour") for kind in ("core", "node", "gpu")})
    pairs = [text.partition("=") for text in given.pop("backend_options")]
    if wrong := next((key for key, equals, _ in pairs if not equals), None):
        raise Invalid(f"-O takes KEY=VALUE, not {wrong!r}")
    allow = tuple(name.strip() for names in given.pop("allow") for name in names.split(",") if name.strip())
    signers = given.pop("allowed_signers") or settings.config.text("agent", "allowed_signers")
    renew = given.pop("renew_secret")
    required = settings.config.get("agent", "require_signature")
    state_dir = given.pop("state_dir") or platformdirs.user_state_path("rainbow") / "agents" / cluster
    return AgentOptions(
        cluster=cluster,
        state_dir=Path(state_dir).expanduser().resolve(),
        backend_options={key: value for key, _, value in pairs},
        prices=prices,
        allow=allow,
        allowed_signers=signers,
        renew_every=0.0 if renew == "never" else parse_duration(renew) or 0.0,
        require_signature=bool(signers) if required is None else bool(required),
        **given,
    )


async def _run(options: AgentOptions, settings: ClientSettings) -> None:
    from rainbow_sched import __version__
    from rainbow_sched.agent.backends import BackendSettings, load_backend
    from rainbow_sched.agent.core.state import AgentLimits
    from rainbow_sched.agent.runtime.journal import Journal
    from rainbow_sched.agent.runtime.link import ServerLink, rotation_of
    from rainbow_sched.agent.runtime.loop import Agent, AgentParts
    from rainbow_sched.agent.runtime.registration import graph_of, rediscovery, register
    from rainbow_sched.agent.runtime.site_rules import SiteRules, job_expression, signature_checker
    from rainbow_sched.protocol.messages import SyncMessage, SyncRequest

    with opened(Journal, options.state_dir) as journal:
        secret = credential(options, settings, os.environ)
        make = load_backend(options.backend)  # before registering a cluster that this agent cannot serve
        if secret is None and options.register:
            secret = await register(options, settings)
        backend = make(
            BackendSettings(
                cluster=options.cluster,
                directory=options.state_dir,
                graph=graph_of(options),
                prices=options.prices,
                options=options.backend_options,
            )
        )
        sender = SyncRequest(
            message=SyncMessage(seq=0),
            cluster=options.cluster,
            epoch=f"{journal.id}.{secrets.token_hex(8)}",
            manager=options.backend,
            version=__version__,
            accept_only=options.accept,
            order_by=options.order and job_expression("--order", options.order).text,
            guards=backend.guards_runs,
            recalls=True,
        )
        link = ServerLink(settings, sender, need_credential(secret, options), lambda: backend.node_rules)
        parts = AgentParts(
            cluster=options.cluster,
            link=link,
            backend=backend,
            journal=journal,
            rules=SiteRules(
                accept=job_expression("--accept", options.accept) if options.accept else None,
                allow=frozenset(options.allow) if options.allow else None,
                signatures=signature_checker(
                    options.cluster, options.state_dir, options.allowed_signers, options.require_signature, time.time()
                ),
            ),
            limits=AgentLimits(max_jobs=options.max_jobs, max_wait=1.0 if options.once else AgentLimits().max_wait),
            rediscovery=None if options.once else rediscovery(options, settings, lambda: link.secret),
        )
        running = Agent(parts, once=options.once)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, running.stop)
        rotation = rotation_of(options, os.environ, link)
        renewing = None if rotation is None else asyncio.create_task(rotation.run())
        try:
            await running.run()
        finally:
            if renewing is not None:
                renewing.cancel()
            await link.close()


@agent.command(context_settings={"ignore_unknown_options": True})
@click.option("--write", is_flag=True, help="Write the unit to ~/.config/systemd/user instead of printing it.")
@click.option("--cluster", required=True, metavar="NAME", help="The agent's cluster.")
@click.argument("rest", nargs=-1, type=click.UNPROCESSED, metavar="[AGENT OPTIONS]...")
def install(write: bool, cluster: str, rest: tuple[str, ...]) -> int:
    """Print a systemd --user unit that runs the agent with these options."""
    text = unit_text(cluster, rest)
    if not write:
        click.echo(text, nl=False)
        return 0
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd" / "user"
    home.mkdir(parents=True, exist_ok=True)
    path = home / f"rainbow-agent-{cluster_name(cluster)}.service"
    path.write_text(text)
    click.echo(f"wrote {path}; now: systemctl --user daemon-reload && systemctl --user enable --now {path.name}")
    click.echo("to keep it running after you log out: loginctl enable-linger")
    return 0


def unit_text(cluster: str, arguments: Iterable[str], program: Iterable[str] | None = None) -> str:
    """Return the unit file. Stopping the unit ends the agent only; jobs continue."""
    command = list(program or _program())
    words = [*command, "agent", "--cluster", cluster_name(cluster), *arguments]
    return f"""[Unit]
Description=Rainbow agent of cluster {cluster}
After=network-online.target
Wants=network-online.target

[Service]
ExecStart={" ".join(map(quoted, words))}
Restart=on-failure
RestartSec=5
RestartPreventExitStatus=2 5
KillMode=process
Delegate=yes
DelegateSubgroup=agent
NoNewPrivileges=yes
UMask=0077

[Install]
WantedBy=default.target
"""


def quoted(word: str) -> str:
    """Return a word of ExecStart with systemd's quoting."""
    if "\n" in word or "\0" in word:
        raise Invalid("an option of an agent must not contain a line break or zero byte")
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'


def _program() -> list[str]:
    beside = Path(sys.executable).parent / "rainbow"
    return [str(beside)] if beside.exists() else [sys.executable, "-m", "rainbow_sched.cli.main"]
