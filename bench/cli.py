"""Processor time of short commands against a real server, next to Python with click and grpc alone."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Sequence

from bench._server import a_server

ENTRY = "from rainbow_sched.cli.main import main; main()"  # what the installed program does
FLOOR = "python, click and grpc"
PROGRAMS = {
    FLOOR: ["-c", "import click, grpc"],
    "rainbow --version": ["-c", ENTRY, "--version"],
    "rainbow jobs": ["-c", ENTRY, "jobs"],
    "rainbow submit": ["-c", ENTRY, "submit", "-n1", "--", "true"],
}
CANCEL = ["-c", ENTRY, "cancel", "all"]
MAX_MS = {"rainbow jobs": 100, "rainbow submit": 120}
MAX_RATIOS = {"rainbow jobs": 1.25, "rainbow submit": 1.5}  # the same at 80 ms for click and grpc
ROUNDS = 15


def main(arguments: list[str]) -> None:
    """Print medians of `--rounds` runs of each, taken in turn so that a busy moment hits all alike."""
    rounds = int(arguments[1]) if arguments[:1] == ["--rounds"] else ROUNDS
    with a_server() as (_, process), tempfile.TemporaryDirectory(prefix="rainbow-bench-") as home:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"HOME": home, "RAINBOW_SERVER": process.address, "RAINBOW_TOKEN": process.token}
        environment["RAINBOW_CONFIG"] = ""
        spent: dict[str, list[float]] = {name: [] for name in PROGRAMS}
        for number in range(rounds + 1):
            for name, words in PROGRAMS.items():
                milliseconds = processor_ms(words, environment)
                if number:  # the first round compiles the modules
                    spent[name].append(milliseconds)
            processor_ms(CANCEL, environment)  # `jobs` lists at most one job
    print(f"{'command':<24} {'processor ms':>13} {'x click and grpc':>17}")
    ratios = {
        name: statistics.median(one / floor for one, floor in zip(values, spent[FLOOR], strict=True))
        for name, values in spent.items()
    }
    for name, values in spent.items():
        print(f"{name:<24} {statistics.median(values):>13.0f} {ratios[name]:>17.2f}")
    for name, most in MAX_MS.items():
        print(f"{name} is to take at most {most} ms, {MAX_RATIOS[name]} x: {ratios[name]:.2f} x")


def processor_ms(words: Sequence[str], environment: dict[str, str]) -> float:
    """Run Python with these arguments; return the user and system time it took."""
    null = os.open(os.devnull, os.O_RDWR)
    try:
        actions = [(os.POSIX_SPAWN_DUP2, null, number) for number in (0, 1, 2)]
        child = os.posix_spawn(sys.executable, [sys.executable, *words], environment, file_actions=actions)
    finally:
        os.close(null)
    _, status, usage = os.wait4(child, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise RuntimeError(f"{' '.join(words)} failed with status {status}")
    return (usage.ru_utime + usage.ru_stime) * 1000


if __name__ == "__main__":
    main(sys.argv[1:])
