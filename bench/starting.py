"""Benchmark of start-up: `rainbow --help`, `rainbow jobs --help` and the client import, against a bare interpreter."""

from __future__ import annotations

import subprocess
import sys
import time

ENTRY = "from rainbow_sched.cli.main import main; main()"  # what the installed program does
PROGRAMS = {
    "bare python": ["-c", "pass"],
    "rainbow --help": ["-c", ENTRY, "--help"],
    "rainbow jobs --help": ["-c", ENTRY, "jobs", "--help"],
    "import rainbow_sched.client": ["-c", "import rainbow_sched.client"],
}
ROUNDS = 7


def main(arguments: list[str]) -> None:
    """Print the shortest of a few starts of each, taken in turns so that load affects all equally."""
    best = dict.fromkeys(PROGRAMS, float("inf"))
    for _ in range(ROUNDS):
        for name, words in PROGRAMS.items():
            began = time.perf_counter()
            subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
            best[name] = min(best[name], time.perf_counter() - began)
    bare = best["bare python"]
    print(f"{'start':<24} {'ms':>7} {'x bare python':>14}")
    for name, seconds in best.items():
        print(f"{name:<24} {seconds * 1000:>7.0f} {seconds / bare:>14.1f}")
    print(f"rainbow --help should start in under 250 ms: {best['rainbow --help'] * 1000:.0f} ms")


if __name__ == "__main__":
    main(sys.argv[1:])
