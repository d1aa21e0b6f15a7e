"""`rainbow completion`: the script that teaches a shell to complete commands and options."""

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

    found = get_completion_class(shell)
    assert found is not None, "click knows the three shells above"
    click.echo(found(cli, {}, "rainbow", "_RAINBOW_COMPLETE").source())
