"""How many of our files one submit runs through: a reader who follows it has to open these."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest
from grpc import aio

import rainbow_sched
from rainbow_sched.client.submission import JobSubmission, command
from rainbow_sched.pb.v2 import jobs_pb2
from rainbow_sched.server.main import RunningServer
from rainbow_sched.server.options import ServerOptions

SOURCE = f"{Path(rainbow_sched.__file__).parent}/"
MAX_SERVER_FILES = 60
MAX_CLIENT_FILES = 20
SECRET = "x" * 20
GRAPH = Path(__file__).parents[2] / "examples/clusters/birch/graph.json"
RAINBOW = "from rainbow_sched.cli.main import main; main()"
# Prints the files at exit. Functions that run while a module is imported do not count: nobody has to follow those.
RECORDED = f"""
import json, sys
seen, importing = set(), 0
def profile(frame, event, _):
    global importing
    code = frame.f_code
    if code.co_name == "<module>" and event in ("call", "return"):
        importing += 1 if event == "call" else -1
    elif event == "call" and not importing and code.co_filename.startswith({SOURCE!r}):
        seen.add(code.co_filename)
from rainbow_sched.cli.main import main
sys.setprofile(profile)
try:
    main()
finally:
    sys.setprofile(None)
    print(json.dumps(sorted(seen)), file=sys.stderr)
"""


class Recorder:
    """The files of the program in which functions are called, by any thread, while it is on."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self._on = False

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        """Note a call, as sys.setprofile gives it."""
        name = frame.f_code.co_filename
        if self._on and event == "call" and name.startswith(SOURCE) and "/pb/" not in name:
            self.files.add(name.removeprefix(SOURCE))

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record the calls of the block."""
        self._on = True
        try:
            yield
        finally:
            self._on = False


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    made = Recorder()
    threading.setprofile(made.profile)
    sys.setprofile(made.profile)
    yield made
    sys.setprofile(None)
    threading.setprofile(None)  # type: ignore[arg-type]  # None removes it


async def rainbow(running: RunningServer, folder: Path, *arguments: str, code: str = RAINBOW) -> str:
    """Run a command with the server's address; return what it printed to stderr."""
    environment = {
        **os.environ,
        "HOME": str(folder),
        "RAINBOW_CONFIG": str(folder / "config.yaml"),
        "RAINBOW_SERVER": running.address,
        "RAINBOW_REGISTRATION_SECRET": SECRET,
    }
    ran = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", code, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return str(ran.stderr)


async def test_one_submit_runs_in_few_files(tmp_path: Path, recorder: Recorder) -> None:
    """A warm server, one cluster that fits, and a second submit: the first one fills caches."""
    options = ServerOptions(listen="127.0.0.1:0", data_dir=tmp_path, registration_secret=SECRET)
    running = await RunningServer.start(options)
    try:
        await rainbow(
            running, tmp_path, "register", "cluster", "--cluster-name", "birch", "--nodes-json", str(GRAPH), "--save"
        )
        submission = JobSubmission(text=command(["true"]), dialect="flux", name="true").to_message()
        async with aio.insecure_channel(running.address) as channel:
            submit = channel.unary_unary(
                "/rainbow.v2.Jobs/Submit",
                request_serializer=jobs_pb2.SubmitRequest.SerializeToString,
                response_deserializer=jobs_pb2.SubmitResponse.FromString,
            )
            token = (tmp_path / "admin.token").read_text().strip()
            metadata = (("authorization", f"Bearer {token}"),)
            await submit(submission, metadata=metadata)
            with recorder.recording():
                answer = await submit(submission, metadata=metadata)
        assert answer.cluster == "birch"
        said = await rainbow(running, tmp_path, "submit", "-n1", "--", "true", code=RECORDED)
    finally:
        await running.stop()
    client = [name.removeprefix(SOURCE) for name in json.loads(said.splitlines()[-1])]
    assert len(recorder.files) <= MAX_SERVER_FILES, "\n".join(sorted(recorder.files))
    assert len(client) <= MAX_CLIENT_FILES, "\n".join(client)
