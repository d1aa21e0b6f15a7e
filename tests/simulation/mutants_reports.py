"""The rules about reports that the server does not understand, each switched off."""

from __future__ import annotations

from typing import Any

import pytest

from rainbow_sched.agent.core import mailbox
from rainbow_sched.model.errors import Invalid
from rainbow_sched.protocol import report_reader
from rainbow_sched.protocol.messages import UnknownReport
from rainbow_sched.service.agents import reports
from rainbow_sched.simulation.faults import FaultRates
from tests.simulation.mutants import mutant
from tests.simulation.mutants_nodes import MUTANTS

__all__ = ["MUTANTS"]  # all of them: those of the other files, and these

Patch = pytest.MonkeyPatch
OLDER = FaultRates(older_server=0.8, server_crash=2.0, manager_loses=0.3)  # servers that know fewer states than agents


@mutant(OLDER)
def refuses_a_whole_message_for_one_report(patch: Patch) -> None:
    def read_report(raw: Any, states: Any) -> Any:
        report = original(raw, states)
        if isinstance(report, UnknownReport):
            raise Invalid(report.why)
        return report

    original = report_reader.read_report
    patch.setattr(report_reader, "read_report", read_report)


@mutant(OLDER)
def acknowledges_a_report_that_it_does_not_understand(patch: Patch) -> None:
    def store_unknown_report(sync: Any, report: Any) -> None:
        sync.out.acked.append(report.ref)

    patch.setattr(reports, "store_unknown_report", store_unknown_report)


@mutant(OLDER)
def never_reports_again_what_was_not_understood(patch: Patch) -> None:
    patch.setattr(mailbox, "_report_unknown_again", lambda d: None)
