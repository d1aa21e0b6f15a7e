"""Generate src/rainbow_sched/pb from proto/; `make proto`. A test compares what is committed with what this writes."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from importlib import resources
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OURS = ("jobs", "clusters", "agents", "access")
PROTOTYPE = ("rainbow", "memory")


def generate(into: Path) -> None:
    """Write the generated package into `into`."""
    into.mkdir(parents=True, exist_ok=True)
    (into / "__init__.py").write_text('"""Generated from proto/ by tools/generate_protos.py."""\n')
    _compile(ROOT / "proto", [f"rainbow/v2/{name}.proto" for name in OURS], into / "v2", "rainbow_sched.pb.v2")
    theirs = [f"{name}.proto" for name in PROTOTYPE]
    _compile(ROOT / "proto/prototype", theirs, into / "prototype", "rainbow_sched.pb.prototype")


def _compile(include: Path, files: list[str], into: Path, package: str) -> None:
    from grpc_tools import protoc

    into.mkdir(parents=True, exist_ok=True)
    (into / "__init__.py").write_text('"""Generated; see the folder above."""\n')
    with tempfile.TemporaryDirectory() as scratch:
        well_known = str(resources.files("grpc_tools") / "_proto")
        arguments = ["protoc", f"-I{include}", f"-I{well_known}", f"--python_out={scratch}", f"--pyi_out={scratch}"]
        if protoc.main([*arguments, f"--grpc_python_out={scratch}", *files]) != 0:
            sys.exit("protoc failed")
        for made in sorted(Path(scratch).rglob("*.py*")):
            text = made.read_text()
            text = re.sub(r"^from rainbow\.v2 import", f"from {package} import", text, flags=re.M)
            text = re.sub(r"^import (rainbow|memory)_pb2 as", rf"from {package} import \1_pb2 as", text, flags=re.M)
            (into / made.name).write_text(text)


def main() -> None:
    """Replace src/rainbow_sched/pb."""
    target = ROOT / "src/rainbow_sched/pb"
    shutil.rmtree(target, ignore_errors=True)
    generate(target)
    print(f"wrote {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
