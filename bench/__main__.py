"""Run the benchmarks: `python -m bench` runs all, `python -m bench NAME ...` one with its arguments."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def main(arguments: list[str]) -> int:
    """Run the public modules of this folder; each is a benchmark with a `main(arguments)`."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))
    if arguments and arguments[0] not in names:
        print(f"there is no benchmark {arguments[0]!r}; there are {', '.join(names)}", file=sys.stderr)
        return 2
    for name in arguments[:1] or names:
        import_module(f"bench.{name}").main(arguments[1:])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
