"""The submission of a job: its request, its terms, and the client token that makes a retry safe."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.job import Terms
from rainbow_sched.pb.v2 import jobs_pb2 as pb


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSubmission:
    """One job to submit: a request as canonical JSON, or a text in a dialect that the server knows."""

    canonical: str = ""
    text: str = ""
    dialect: str = ""  # of `text`; empty: detected by the server
    name: str = ""
    terms: Terms = field(default_factory=Terms)
    array: str = ""  # 1-1000, 1-9:2, 0,3,5-7
    dependencies: tuple[str, ...] = ()  # afterok:12 ...
    client_token: str = field(default_factory=lambda: os.urandom(16).hex())  # the same token means the same job

    def __post_init__(self) -> None:
        if bool(self.canonical) == bool(self.text):
            raise Invalid("a submission holds either a request or a text")

    def to_message(self) -> pb.SubmitRequest:
        """Return the message that submits the job."""
        spec, terms = self.spec_message(), self.terms_message()
        return pb.SubmitRequest(name=self.name, spec=spec, terms=terms, client_token=self.client_token)

    def spec_message(self) -> pb.Spec:
        if self.canonical:
            return pb.Spec(canonical=self.canonical)
        return pb.Spec(text=self.text, dialect=self.dialect)

    def terms_message(self) -> pb.Terms:
        """Return the terms, with the array and the dependencies."""
        known = pb.Terms.DESCRIPTOR.fields_by_name  # the server sets the other fields
        values = {spec.name: getattr(self.terms, spec.name) for spec in fields(self.terms) if spec.name in known}
        values["delivery"] = self.terms.delivery.value
        return pb.Terms(**values, array=self.array, dependencies=self.dependencies)


def command(
    argv: Sequence[str],
    *,
    nodes: int | None = None,
    tasks: int = 1,
    cores: int = 1,
    gpus: int = 0,
    duration: float = 0.0,
    environment: Mapping[str, str] | None = None,
    cwd: str = "",
    name: str = "",
) -> str:
    """Return a Flux jobspec (version 1) that runs `argv` once in each of `tasks` slots, on `nodes` nodes if given."""
    if isinstance(argv, str) or not argv:
        raise Invalid('a command is a list of words, for example ["hostname", "-f"]')
    if tasks < 1 or cores < 1 or gpus < 0 or (nodes is not None and not 1 <= nodes <= tasks):
        raise Invalid("tasks and cores must be at least 1, gpus at least 0, and nodes at most the number of tasks")
    inside = [{"type": "core", "count": cores}]
    if gpus:
        inside.append({"type": "gpu", "count": gpus})
    slot = {"type": "slot", "label": "task", "count": tasks, "with": inside}
    resource: dict[str, object] = slot
    if nodes is not None:
        if tasks % nodes:
            raise Invalid(f"{tasks} tasks cannot be spread evenly over {nodes} nodes; make tasks a multiple of nodes")
        resource = {"type": "node", "count": nodes, "with": [slot | {"count": tasks // nodes}]}
    system: dict[str, object] = {"duration": duration, "environment": dict(environment or {})}
    if cwd:
        system["cwd"] = cwd
    if name:
        system["job"] = {"name": name}
    task = {"command": list(argv), "slot": "task", "count": {"per_slot": 1}}
    return json.dumps(
        {"version": 1, "resources": [resource], "tasks": [task], "attributes": {"system": system}},
        separators=(",", ":"),
    )
