"""Write docs/numbers.md from the source: `python -m tools.write_numbers docs/numbers.md`."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src/rainbow_sched"
HEAD = """\
# Numbers

Generated from the source by `python -m tools.write_numbers docs/numbers.md`; a test keeps it current. A name ends in
its unit: `SECONDS`, `BYTES`, `CHARS`; `MAX_JOBS_...` counts jobs. Where the reason is not obvious, it stands beside
the number in the source and here.

## Numbers that a site can set
"""
FIXED = """
## Fixed numbers

These are constants of the program. Most are bounds that keep one caller from delaying or exhausting what others use.
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
    return "\n".join([HEAD, *_settable(), FIXED, *_fixed()]).rstrip() + "\n"


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
        path = SOURCE / module
        body = next(
            node.body
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.ClassDef) and node.name == owner
        )
        numbers = [number for number in _numbers(path, body) if not names or number.name in names]
        if names and {number.name for number in numbers} != set(names):
            raise ValueError(f"{owner} has other fields than {names}")
        yield heading, way, numbers


def _listed(number: Number) -> bool:
    return number.name.isupper() and not number.name.startswith("_") and number.name not in LEFT_OUT


def _numbers(path: Path, body: list[ast.stmt]) -> Iterator[Number]:
    lines = path.read_text().splitlines()
    for node in body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if not isinstance(node, ast.Assign | ast.AnnAssign) or not isinstance(target, ast.Name) or node.value is None:
            continue
        value = _value(node.value)
        if value is not None:
            comment = lines[node.lineno - 1].partition("#")[2].strip()
            yield Number(str(path.relative_to(SOURCE)), target.id, value, comment)


def _value(node: ast.expr) -> float | None:
    """Return the value of a number or of arithmetic on numbers."""
    if any(
        not isinstance(part, ast.Constant | ast.BinOp | ast.UnaryOp | ast.operator | ast.unaryop | ast.expr_context)
        for part in ast.walk(node)
    ):
        return None
    value = eval(compile(ast.Expression(node), "<number>", "eval"), {"__builtins__": {}})  # noqa: S307  # numbers only
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _settable() -> Iterator[str]:
    for heading, way, numbers in settable():
        yield f"### {heading}\n\nSet with {way}.\n\n| name | default | meaning |\n|---|---|---|"
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
    if number.name.endswith("BYTES") or number.name == "output_cap":
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
