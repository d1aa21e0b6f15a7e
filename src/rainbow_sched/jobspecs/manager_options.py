"""Options that Rainbow stores with a job and passes on to the manager of its cluster, such as partition or account.

A row here names the option everywhere: in directives of scripts, on the command line if it has a help text, and in
`Request.options` (so in the stored job and in its signature). What a manager makes of it is in `agent/backends`;
CONTRIBUTING.md says how to add one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class ManagerOption(NamedTuple):
    """One option; every value is text. It may be written in #RAINBOW lines unless it is one of sbatch only."""

    name: str
    sbatch: bool = False  # may be written in #SBATCH lines
    flux: bool = False  # may be written in `# flux:` lines
    metavar: str = ""
    help: str = ""  # set: also an option of `rainbow submit`, `run` and `plan`

    @property
    def rainbow(self) -> bool:
        """Return True if the option may be written in #RAINBOW lines."""
        return self.flux or bool(self.help)


MANAGER_OPTIONS: Mapping[str, ManagerOption] = {
    option.name: option
    for option in (
        ManagerOption("partition", sbatch=True),
        ManagerOption("account", sbatch=True),
        ManagerOption("qos", sbatch=True),
        ManagerOption("reservation", sbatch=True),
        ManagerOption("constraint", sbatch=True),
        ManagerOption("clusters", sbatch=True),
        ManagerOption("licenses", sbatch=True),
        ManagerOption("queue", flux=True),
        ManagerOption("bank", flux=True),
        ManagerOption("project", flux=True),
        ManagerOption("output", sbatch=True, flux=True),
        ManagerOption("error", sbatch=True, flux=True),
        ManagerOption("input", sbatch=True, flux=True),
    )
}
