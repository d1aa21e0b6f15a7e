"""A database is brought to the newest schema once, whoever starts, however it ends in the middle."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rainbow_sched.model.binding import NodeRules
from rainbow_sched.model.errors import Conflict, Unavailable
from rainbow_sched.model.job import Delivery, Terms
from rainbow_sched.model.job_state import JobEvent
from rainbow_sched.store import open_store
from rainbow_sched.store.base import Tx
from rainbow_sched.store.postgres import _connect as connect_postgres
from rainbow_sched.store.schema import Migration, migrate, migrations
from rainbow_sched.store.session import Session
from rainbow_sched.store.sqlite import _connect as connect_sqlite
from tests.contract.store.builders import a_draft, flat
from tests.support.postgres import Postgres

ROOT = Path(__file__).parents[3]


def version(tx: Tx) -> int:
    return int(tx.db.rows("schema_version")[0][0])  # type: ignore[attr-defined]


async def test_a_new_database_has_the_newest_schema_and_opening_again_changes_nothing(url: str) -> None:
    for _ in range(2):
        store = await open_store(url)
        assert await store.read(version) == migrations()[-1].version
        await store.close()


async def test_a_database_of_a_newer_program_is_refused_with_what_to_do(url: str) -> None:
    store = await open_store(url)
    await store.write(lambda tx: tx.add_jobs([a_draft()]))
    await store.write(lambda tx: tx.db.change("add_schema_version", version=9999, name="future"))
    await store.close()
    with pytest.raises(Conflict, match=r"schema 9999, made by a newer Rainbow.*start the newer version"):
        await open_store(url)


def die_in_migration(url: str, left: int) -> bool:
    """True if the process was killed before it was done."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.contract.store.migrating_process", url, str(left)],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
    return ended.returncode != 0


async def test_a_crash_in_the_middle_of_a_migration_leaves_a_usable_database(url: str) -> None:
    statements = len(migrations()[0].statements("sqlite"))
    points = [0, 1, 2, 3, statements // 2, statements + 1, statements + 2, statements + 3]
    for left in points:
        assert await asyncio.to_thread(die_in_migration, url, left)
    store = await open_store(url)
    assert await store.write(lambda tx: tx.add_jobs([a_draft()])) == [1]
    assert await store.read(version) == migrations()[-1].version
    await store.close()


async def test_two_servers_that_start_at_once_on_postgresql_do_not_collide(postgres: Postgres) -> None:
    url = postgres.new_database()
    stores = await asyncio.gather(*[open_store(url) for _ in range(4)])
    ids = await asyncio.gather(*[store.write(lambda tx: tx.add_jobs([a_draft()])) for store in stores])
    assert sorted(flat(ids)) == [1, 2, 3, 4]
    for store in stores:
        await store.close()


async def test_a_second_server_on_one_file_is_refused_and_told_who_has_it(sqlite_url: str) -> None:
    opened = await asyncio.gather(*[open_store(sqlite_url) for _ in range(4)], return_exceptions=True)
    (store,) = [one for one in opened if not isinstance(one, BaseException)]
    refused = [one for one in opened if isinstance(one, BaseException)]
    assert all(isinstance(one, Unavailable) and "has" in str(one) and "open" in str(one) for one in refused)
    await store.close()
    again = await open_store(sqlite_url)
    await again.close()


def adds_table(version: int) -> Migration:
    return Migration(version, f"{version:04}_more.sql", f"CREATE TABLE more{version} (id BIGINT PRIMARY KEY);\n")


async def test_an_older_database_is_brought_up_step_by_step_and_keeps_what_it_has(url: str) -> None:
    store = await open_store(url)
    await store.write(lambda tx: tx.add_jobs([a_draft()]))
    newest = migrations()[-1].version
    later = (*migrations(), adds_table(newest + 1), adds_table(newest + 2))
    session = store._writer.session  # type: ignore[attr-defined]
    assert await asyncio.to_thread(migrate, session, later) == newest + 2
    assert await asyncio.to_thread(migrate, session, later) == newest + 2
    for number in (newest + 1, newest + 2):
        assert session.rows_of(f"SELECT count(*) FROM more{number}", {}) == [(0,)]
    assert [version for (version,) in session.rows_of("SELECT version FROM schema_versions ORDER BY version", {})] == [
        migration.version for migration in later
    ]
    assert session.rows_of("SELECT count(*) FROM jobs", {}) == [(1,)]
    await store.close()


def connected(url: str) -> Session:
    if url.startswith("postgresql"):
        return connect_postgres(url, writing=True)
    return connect_sqlite(Path(url.removeprefix("sqlite:///")), writing=True)


async def test_clusters_whose_agents_spoke_before_node_rules_were_known_are_told_from_those_without_agents(
    url: str,
) -> None:
    session = connected(url)
    migrate(session, tuple(known for known in migrations() if known.version < 10))
    session.begin()
    columns = "id, name, standing, manager, registered_at, state, marks, used, rules, record, drain_reason, version"
    for id, name in ((1, "old"), (2, "none")):
        session.run(
            f"INSERT INTO clusters ({columns}) VALUES ({id}, '{name}', 'active', '', 1, '{{}}', '{{}}', '{{}}', "
            "'{}', '{}', '', 0)"
        )
    session.run("INSERT INTO syncs (cluster_id, epoch, seq, answer) VALUES (1, 'a.1', 3, 'x')")
    session.commit()
    session.close()
    store = await open_store(url)
    found = await store.read(lambda tx: {cluster.name: cluster.node_rules for cluster in tx.clusters()})
    assert found == {"old": NodeRules(), "none": None}
    await store.close()


BEFORE_RERUNS = {  # what 0.1.0 stored before reruns had a number, and what it means now
    "{}": Terms(),
    '{"retries":2}': Terms(retries=2, before_reruns=True),
    '{"delivery":"at-least-once"}': Terms(delivery=Delivery.AT_LEAST_ONCE, reruns=9, before_reruns=True),
    '{"delivery":"at-least-once","retries":2}': Terms(retries=2, reruns=9, before_reruns=True),
    '{"delivery":"at-least-once","retries":2,"labels":{"reruns":"x"}}': Terms(
        retries=2, reruns=9, before_reruns=True, labels={"reruns": "x"}
    ),
}


async def test_jobs_from_before_reruns_were_counted_keep_their_terms_and_what_they_have_used(url: str) -> None:
    session = connected(url)
    migrate(session, migrations()[:6])
    session.begin()
    session.run(
        "INSERT INTO clusters (id, name, standing, manager, registered_at, state, marks, used, rules, record, "
        "drain_reason, version) VALUES (1, 'east', 'active', '', 0, '', '', '', '', '', '', 0)"
    )
    session.run("INSERT INTO texts (id, digest, body) VALUES (1, 'd', 'b')")
    # Job 1 had every end below; the preemption cost nothing then. Job 2 is over, job 3 is new.
    columns = "owner, name, spec, spec_check, cluster, evaluations, reason, submitted_at, version, terms"
    for id, state, failures, ended in ((1, "queued", 6, "NULL"), (2, "failed", 6, "9"), (3, "queued", 0, "NULL")):
        session.run(
            f"INSERT INTO jobs (id, state, attempt, failures, ended_at, {columns}) "
            f"VALUES ({id}, '{state}', 0, {failures}, {ended}, 'ana', 'job', 1, 0, '', 0, '', 0, 0, '{{}}')"
        )
    ends = [("failed", failure) for failure in ("outcome-unknown", "node", "exit", "exit", "memory")]
    ends += [("lost", "lost"), ("preempted", "")]
    for job in (1, 2):
        for n, (state, failure) in enumerate(ends, 1):
            session.run(
                "INSERT INTO attempts (job, n, cluster_id, cluster, token, state, live, priority, created_at, failure, "
                f"reason, native_id, suspect, holder) VALUES ({job}, {n}, 1, 'east', 't', '{state}', 0, 0, 0, "
                f"'{failure}', '', '', 0, '')"
            )
    session.commit()
    assert migrate(session) == migrations()[-1].version
    found = session.rows_of("SELECT id, failures, reruns_used FROM jobs ORDER BY id", {})
    assert found == [(1, 3, 3), (2, 6, 0), (3, 0, 0)]
    session.close()


async def test_terms_from_before_reruns_had_a_number_are_read_and_stay_as_they_are(url: str) -> None:
    store = await open_store(url)
    ids = await store.write(lambda tx: tx.add_jobs([a_draft() for _ in BEFORE_RERUNS]))
    for id, text in zip(ids, BEFORE_RERUNS, strict=True):
        said = {"id": id, "name": "job", "terms": text, "start_after": None, "deadline": None}
        await store.write(lambda tx, said=said: tx.db.change("update_terms", **said))
    for id, (text, meant) in zip(ids, BEFORE_RERUNS.items(), strict=True):
        job = await store.read(lambda tx, id=id: tx.job(id))
        assert job is not None
        assert job.terms == meant
        renamed = await store.write(lambda tx, job=job: tx.update_job(job, JobEvent.UPDATED, 2.0, name="other"))
        assert renamed.terms == meant
        session = store._writer.session  # type: ignore[attr-defined]
        assert session.rows_of(f"SELECT terms FROM jobs WHERE id = {id}", {}) == [(text,)]
    await store.close()


@pytest.mark.parametrize("terms", [Terms(retries=2), Terms(reruns=3), Terms(reruns=9, retries=2)])
async def test_terms_with_a_number_of_reruns_are_not_taken_for_older_ones(sqlite_url: str, terms: Terms) -> None:
    store = await open_store(sqlite_url)
    (id,) = await store.write(lambda tx: tx.add_jobs([a_draft(terms=terms)]))
    job = await store.read(lambda tx: tx.job(id))
    assert job is not None
    assert job.terms == terms
    await store.close()


async def test_decisions_from_before_their_table_was_made_anew_are_kept(url: str) -> None:
    session = connected(url)
    migrate(session, migrations()[:5])
    session.begin()
    session.run("INSERT INTO texts (id, digest, body) VALUES (1, 'd', 'b')")
    for job, n in ((2, 0), (1, 1), (1, 0)):
        session.run(f"INSERT INTO decisions (job, n, at, record, own) VALUES ({job}, {n}, {n}.5, 1, 'own {job} {n}')")
    session.commit()
    assert migrate(session) == migrations()[-1].version
    found = session.rows_of("SELECT job, n, at, record, own FROM decisions ORDER BY job, n", {})
    assert found == [(1, 0, 0.5, 1, "own 1 0"), (1, 1, 1.5, 1, "own 1 1"), (2, 0, 0.5, 1, "own 2 0")]
    session.close()
