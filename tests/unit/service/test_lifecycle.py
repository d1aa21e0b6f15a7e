"""Only `lifecycle.py` moves stored jobs: nothing else in the service gives one another state or attempt."""

from __future__ import annotations

import re
from pathlib import Path

import rainbow_sched.service

FOLDER = Path(rainbow_sched.service.__file__).parent
CALL = re.compile(r"tx\.(update_job|add_attempt|apply_decisions|add_jobs|add_lost_job)\(([^)]*)")


def test_stored_jobs_are_moved_by_the_lifecycle_alone() -> None:
    elsewhere = set()
    for path in sorted(FOLDER.rglob("*.py")):
        if path.name == "lifecycle.py":
            continue
        for called, arguments in CALL.findall(path.read_text(encoding="utf-8")):
            if called == "update_job" and "JobEvent.UPDATED" in arguments:
                continue  # an event that leaves the state
            elsewhere.add((path.relative_to(FOLDER).as_posix(), called))
    assert elsewhere == {("submission/new_jobs.py", "add_jobs"), ("agents/recall.py", "add_lost_job")}  # they are new
