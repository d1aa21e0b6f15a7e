"""Convert site options (partition, account, qos ...) and extra options to sbatch options, by allow-list."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping

from rainbow_sched.agent.backends.common.launches import chosen_options
from rainbow_sched.model.errors import Invalid, Unsupported
from rainbow_sched.model.hostlist import expand

SITE = ("partition", "account", "qos", "constraint", "reservation", "licenses")
SYNONYMS: Mapping[str, str] = {"queue": "partition", "bank": "account"}  # Flux's names for the same
OWN = frozenset({"output", "error", "clusters", "project"})  # handled by Rainbow, or not for Slurm
EXTRA = "extra"
ALLOWED_EXTRA = (
    "nice",
    "hint",
    "contiguous",
    "distribution",
    "switches",
    "core-spec",
    "thread-spec",
    "spread-job",
    "tmp",
)
EXCLUDE, NODE_LISTS = "exclude", frozenset({"nodelist", "nodefile"})  # extra options about nodes
_VALUE = re.compile(r"[\w.,:;@%/+&|*()\[\]=^-]{1,200}", re.ASCII)
_EXTRA = re.compile(r"--([a-z][a-z-]*)(?:=(.*))?", re.DOTALL)
_SIMPLE = re.compile(r"[\w.&-]+", re.ASCII)


def site_options(wanted: Mapping[str, str], site: Mapping[str, str]) -> dict[str, str]:
    """Return the site options of a job: the user's options over the site's defaults."""
    known = f"this site has {', '.join((*SITE, EXTRA))}"
    return chosen_options(wanted, site, SITE, SYNONYMS, (*OWN, EXTRA, "input"), known)


def one_partition(required: str, wanted: Mapping[str, str], chosen: Mapping[str, str]) -> str:
    """Return the required partition, else the chosen ones; raise `Unsupported` if the user chose others."""
    named = chosen.get("partition", "")
    own = any(SYNONYMS.get(key, key) == "partition" for key in wanted)
    if required and own and required not in named.split(","):
        raise Unsupported(f"a job runs in one partition, not in {named} and {required}")
    return required or named


def option_words(
    wanted: Mapping[str, str], site: Mapping[str, str], partition: str = "", features: Collection[str] = ()
) -> list[str]:
    """Return the sbatch options of a job; raise `Unsupported` for an option that is not allowed.

    `site` is the agent's configuration: defaults such as `partition = batch`, and translations such as
    `partition.gpu = gpu-a100`. `partition` and `features` are those of the request.
    """
    chosen = site_options(wanted, site)
    if partition:
        chosen["partition"] = partition
    if features:
        chosen["constraint"] = _joined(chosen.get("constraint", ""), "&".join(sorted(features)))
    words = []
    for name, value in chosen.items():
        if not _VALUE.fullmatch(value):
            raise Unsupported(f"{name}={value[:40]!r} has characters that Slurm does not allow in names")
        words.append(f"--{name}={value}")
    if wanted.get("input"):
        words.append(f"--input={wanted['input']}")
    return [*words, *_extra_words(wanted.get(EXTRA, ""), site)]


def _joined(constraint: str, features: str) -> str:
    """Return the user's constraint with the features of the request."""
    if constraint and not _SIMPLE.fullmatch(constraint):
        raise Unsupported(f"the constraint {constraint!r} cannot be joined with the features {features}")
    return f"{constraint}&{features}" if constraint else features


def nodes_in_extra(wanted: Mapping[str, str]) -> tuple[list[str], bool]:
    """Return the nodes of `--exclude` in the extra options, and whether they name nodes; raise `Unsupported`.

    Slurm honours only the last `--exclude`, so ours must include the user's.
    """
    exclude: list[str] = []
    named = False
    for word in _split(wanted.get(EXTRA, "")):
        name, _, value = word.removeprefix("--").partition("=")
        named = named or name in NODE_LISTS
        if name == EXCLUDE:
            try:
                exclude += expand(value)
            except Invalid as problem:
                raise Unsupported(f"--exclude: {problem}") from None
    return exclude, named


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise Unsupported(f"the extra options {text[:60]!r} cannot be parsed: {error}") from None


def _extra_words(text: str, site: Mapping[str, str]) -> list[str]:
    allowed = {*ALLOWED_EXTRA, *(name.strip() for name in site.get("allow_extra", "").split(",") if name.strip())}
    words = []
    for word in _split(text):
        found = _EXTRA.fullmatch(word)
        if found is None:
            raise Unsupported(f"an extra option must be --name or --name=value, not {word[:40]!r}")
        if found[1] not in allowed:
            raise Unsupported(f"this site does not allow --{found[1]}; it allows {', '.join(sorted(allowed))}")
        if found[2] is not None and not _VALUE.fullmatch(found[2]):
            raise Unsupported(f"the value of --{found[1]} has characters that are not allowed")
        if found[1] != EXCLUDE:  # included in our own
            words.append(word)
    return words
