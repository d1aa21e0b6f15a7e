"""Write docs/numbers.md from the source: `python -m tools.write_numbers docs/numbers.md`."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src/rainbow_sched"
HEAD = """\
# Numbers

Generated from the source by `python -m tools.write_numbers docs/numbers.md`; a test keeps it current. The name of a
constant holds its unit (`SECONDS`, `DAYS`, `BYTES`, `CHARS`, `BITS`) or what it counts (`MAX_JOBS_PER_CALL`); otherwise
the reason says it. Each reason is the comment behind the number in the source. Numbers whose names begin with an
underscore are details of their module and not listed.

## Numbers that a site can set
"""
FIXED = """
## Fixed numbers

No option changes these. Most are bounds that keep one caller from delaying or exhausting what others use.
"""
SETTABLE = (  # (heading, how it is set, module, class, names of the fields; empty: all)
    (
        "Server: times",
        "`scheduler.timing.NAME` in the config file, in seconds",
        "service/settings.py",
        "Settings",
        ("heartbeat", "silent_after", "lease", "long_poll", "bid_deadline", "stale_after"),
    ),
    (
        "Server: counts",
        "`scheduler.counts.NAME` in the config file",
        "service/settings.py",
        "Settings",
        ("bidders", "breaker", "output_cap", "keep_days", "keep_jobs"),
    ),
    ("Server: limits", "`limits.NAME` in the config file", "server/admission/limits.py", "AdmissionLimits", ()),
    (
        "Agent",
        "options of `rainbow agent`",
        "agent/options.py",
        "AgentOptions",
        ("max_jobs", "renew_every", "rediscover"),
    ),
)
WITHOUT_OPTION = (  # (heading, module, class, names of the fields)
    ("Times of the server", "service/settings.py", "Settings", ("run_lease", "shortest_lost_after")),
    (
        "Limits of the agent",
        "agent/core/state.py",
        "AgentLimits",
        ("max_wait", "run_guard", "output_grace", "output_give_up", "chunk", "chunks"),
    ),
)
PACKAGES = (
    "service",
    "server",
    "store",
    "agent",
    "client",
    "cli",
    "jobspecs",
    "model",
    "selection",
    "matching",
    "graphs",
    "documents",
    "discovery",
    "protocol",
)
LEFT_OUT = ("FILE_MODE", "PRIVATE_MODE", "EPOCH")


@dataclass(frozen=True, slots=True)
class Number:
    """A number in the source."""

    module: str
    name: str
    value: float
    comment: str


def page() -> str:
    """Return the whole page."""
    return "\n".join([HEAD, *_settable(), FIXED, *_without_option(), *_fixed()]).rstrip() + "\n"


def fixed() -> list[Number]:
    """Return the public numeric constants of the modules."""
    found = []
    for package in PACKAGES:
        for path in sorted((SOURCE / package).rglob("*.py")):
            found += [number for number in _numbers(path, ast.parse(path.read_text()).body) if _listed(number)]
    return found


def settable() -> Iterator[tuple[str, str, list[Number]]]:
    """Yield heading, way to set, and the numbers."""
    for heading, way, module, owner, names in SETTABLE:
        yield heading, way, _fields(module, owner, names)


def without_option() -> Iterator[tuple[str, list[Number]]]:
    """Yield heading and numbers of the settings that no option reaches."""
    for heading, module, owner, names in WITHOUT_OPTION:
        yield heading, _fields(module, owner, names)


def _fields(module: str, owner: str, names: tuple[str, ...]) -> list[Number]:
    """Return the numbers among the fields of a class; without `names`, all."""
    path = SOURCE / module
    body = next(
        node.body for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef) and node.name == owner
    )
    numbers = [number for number in _numbers(path, body) if not names or number.name in names]
    if names and {number.name for number in numbers} != set(names):
        raise ValueError(f"{owner} has other fields than {names}")
    return numbers


def _listed(number: Number) -> bool:
    return number.name.isupper() and not number.name.startswith("_") and number.name not in LEFT_OUT


def _numbers(path: Path, body: list[ast.stmt]) -> Iterator[Number]:
    lines = path.read_text().splitlines()
    known: dict[str, float] = {}
    for node in body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        if isinstance(target, ast.Tuple):
            _refuse_pair(path, target, node.value, known)
        value = _value(node.value, known)
        if isinstance(target, ast.Name) and value is not None:
            known[target.id] = value
            comment = lines[node.lineno - 1].partition("#")[2].strip()
            yield Number(str(path.relative_to(SOURCE)), target.id, value, comment)


def _refuse_pair(path: Path, targets: ast.Tuple, values: ast.expr, known: Mapping[str, float]) -> None:
    """Refuse `A, B = 1, 2` for public names: each number needs a reason of its own."""
    for target, value in zip(targets.elts, getattr(values, "elts", ()), strict=False):
        if isinstance(target, ast.Name) and not target.id.startswith("_") and _value(value, known) is not None:
            raise ValueError(f"{path}, line {target.lineno}: assign each number on a line of its own, with its reason")


def _value(node: ast.expr, known: Mapping[str, float]) -> float | None:
    """Return the value of a number or of arithmetic on numbers and on names of earlier ones."""
    if any(
        not isinstance(part, ast.Constant | ast.BinOp | ast.UnaryOp | ast.operator | ast.unaryop | ast.expr_context)
        and not (isinstance(part, ast.Name) and part.id in known)
        for part in ast.walk(node)
    ):
        return None
    value = eval(  # noqa: S307  # numbers only
        compile(ast.Expression(node), "<number>", "eval"), {"__builtins__": {}}, dict(known)
    )
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _settable() -> Iterator[str]:
    for heading, way, numbers in settable():
        yield f"### {heading}\n\nSet with {way}.\n\n| name | default | meaning |\n|---|---|---|"
        yield from (f"| `{n.name}` | {_shown(n)} | {n.comment} |" for n in numbers)
        yield ""


def _without_option() -> Iterator[str]:
    for heading, numbers in without_option():
        yield f"### {heading}\n\n| name | value | reason |\n|---|---|---|"
        yield from (f"| `{n.name}` | {_shown(n)} | {n.comment} |" for n in numbers)
        yield ""


def _fixed() -> Iterator[str]:
    numbers = fixed()
    for package in PACKAGES:
        yield f"### {package}\n\n| number | value | reason |\n|---|---|---|"
        for n in numbers:
            if n.module.startswith(f"{package}/"):
                yield f"| `{n.name}` in `{n.module.removeprefix(f'{package}/')}` | {_shown(n)} | {n.comment} |"
        yield ""


def _shown(number: Number) -> str:
    value = number.value
    if "BYTES" in number.name or number.name in ("output_cap", "chunk"):
        for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
            if value >= size and value % size == 0:
                return f"{value / size:g} {unit}"
    for power in (53, 62, 63):
        if value in (2**power, 2**power - 1):
            return f"2^{power}" + (" - 1" if value == 2**power - 1 else "")
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e15):
        return f"{int(value):,}"
    return f"{value:g}"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
