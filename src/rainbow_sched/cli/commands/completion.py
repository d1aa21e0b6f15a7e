"""`rainbow completion`: print the script for shell completion."""

from __future__ import annotations

import click

EPILOG = """\b
Examples:
  eval "$(rainbow completion bash)"
  rainbow completion zsh > ~/.zfunc/_rainbow
  rainbow completion fish > ~/.config/fish/completions/rainbow.fish
"""


@click.command(epilog=EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of SHELL."""
    from click.shell_completion import get_completion_class

    from rainbow_sched.cli.main import cli

    completer = get_completion_class(shell)
    assert completer is not None, "click supports these three shells"
    click.echo(completer(cli, {}, "rainbow", "_RAINBOW_COMPLETE").source())
