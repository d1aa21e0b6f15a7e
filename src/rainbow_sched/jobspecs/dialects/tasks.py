"""How many times a task runs, as RFC 14 says it: per slot or in all."""

from __future__ import annotations

from rainbow_sched.jobspecs.dialects.draft import Draft
from rainbow_sched.jobspecs.reading.fields import At, need


def read_count(at: At, draft: Draft) -> tuple[int, int | None]:
    """(per slot, total) of a task's `count`; exactly one of them is written."""
    entries = at.keys(("per_slot", "per_resource", "total"))
    if len(entries) != 1:
        raise at.refuse("a task's count has exactly one of per_slot, per_resource and total")
    if "per_resource" in entries:
        per_resource = entries["per_resource"]
        inner = per_resource.keys(("type", "count"))
        need(inner, "type", per_resource).text()
        need(inner, "count", per_resource).whole()
        draft.note(per_resource, "tasks per resource are not honoured; one task runs in each slot")
        return 1, None
    if "total" in entries:
        return 1, entries["total"].whole()
    return entries["per_slot"].whole(), None
