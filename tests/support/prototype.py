"""The first Rainbow's own Python client, unmodified, in a virtual environment of its own with locked versions."""

from __future__ import annotations

import fcntl
import hashlib
import json
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import yaml

from tests.support.server_process import SECRET, ServerProcess

LOCK = Path(__file__).parents[2] / "requirements/prototype.txt"


def python_with_client() -> Path:
    """The interpreter of an environment with the client, made once and kept in the system's temporary folder."""
    locked = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]
    home = Path(tempfile.gettempdir()) / f"rainbow-prototype-{locked}-py{sys.version_info[0]}{sys.version_info[1]}"
    python = home / "bin/python"
    with (Path(tempfile.gettempdir()) / f"{home.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "ready").exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True, timeout=120)
            command = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
            command += ["--require-hashes", "--only-binary", ":all:", "-r", str(LOCK)]
            subprocess.run(command, check=True, timeout=300)
            (home / "ready").touch()
    return python


def run_client(script: str, folder: Path, **values: object) -> dict[str, object]:
    """Run `script` with the client; it finds `values` as variables and leaves its answers in the dict `out`."""
    body = "import json, warnings\nwarnings.simplefilter('ignore')\nout = {}\n"
    body += "".join(f"{name} = {value!r}\n" for name, value in values.items())
    body += textwrap.dedent(script) + "\nprint('\\n--out--')\nprint(json.dumps(out))\n"
    path = folder / "script.py"
    path.write_text(body)
    done = subprocess.run(
        [str(python_with_client()), "-I", str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    answer: dict[str, object] = json.loads(done.stdout.rsplit("--out--\n", 1)[1])
    return answer


def write_config(folder: Path, server: ServerProcess, cluster: dict[str, str], clusters: list[dict[str, str]]) -> Path:
    """Write the prototype's config file and return its path."""
    path = folder / "rainbow-config.yaml"
    document = {
        "scheduler": {
            "name": "rainbow",
            "secret": SECRET,
            "algorithms": {"selection": {"name": "random"}, "match": {"name": "match"}},
        },
        "cluster": cluster,
        "graphdatabase": {"name": "memory", "options": {"host": server.address}},
        "clusters": clusters,
    }
    path.write_text(yaml.safe_dump(document))
    return path
