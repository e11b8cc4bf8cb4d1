"""Jobs and their session without an agent around them; shell scripts stand in for the programs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import psutil
import pytest

from agent.api import agent_pb2 as api
from agent.config import AgentConfig
from agent.jobs import Job
from agent.programs import JobRefusedError, Launch
from agent.session import Session


def events_of(script: str, folder: Path) -> list[api.JobEvent]:
    """All that is told of a client until its end; it is this shell script."""
    events: list[api.JobEvent] = []
    launch = Launch("client", ["sh", "-c", script], folder, stdout_file=folder / "stdout.log")

    async def use() -> None:
        job = Job("job", launch, 60, events.append)
        await job.start()
        await asyncio.wait_for(job.ended.wait(), 20)

    asyncio.run(use())
    return events


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_the_end_of_a_job_is_told_although_its_log_is_on_a_full_disk(tmp_path: Path) -> None:
    (tmp_path / "stderr.log").symlink_to("/dev/full")
    # More than fits between the program and its reader: who stops reading stops the program.
    end = events_of("yes no space left | head -n 30000 >&2; exit 4", tmp_path)[-1]
    assert (end.state, end.exit_code) == (api.JobEvent.FAILED, 4)
    assert "no space left" in end.message


def test_who_fails_while_it_connects_was_never_ready(tmp_path: Path) -> None:
    lines = ({"state": "connecting"}, {"state": "failed", "message": "nobody answers"})
    *before, end = events_of("".join(f"echo '{json.dumps(line)}' >&2;" for line in lines) + "exit 3", tmp_path)
    assert [event.state for event in before] == [api.JobEvent.STARTING, api.JobEvent.STARTING]
    assert end.state == api.JobEvent.FAILED and "nobody answers" in end.message


def test_last_words_leave_the_counts_as_they_were(tmp_path: Path) -> None:
    lines = (
        {"state": "measuring", "operations": 7, "planned": 9, "errors": 2, "ops_per_s": 3.5},
        {"state": "failed", "message": "out of luck"},
    )
    end = events_of("".join(f"echo '{json.dumps(line)}' >&2;" for line in lines) + "exit 4", tmp_path)[-1]
    counts = {"operations": 7, "planned": 9, "errors": 2}
    assert json.loads(end.status_json) == {"state": "failed", "message": "out of luck", **counts}


def test_a_client_whose_database_hangs_has_the_time_to_write_its_summary(tmp_path: Path) -> None:
    program = tmp_path / "client-stand-in"
    # as long as a client waits for threads that do not come back from the database
    program.write_text(
        "#!/bin/sh\ntrap 'sleep 12; echo written > summary.json; exit 130' TERM\necho >&2\nread forever\n"
    )
    program.chmod(0o755)
    config = AgentConfig("node1", "127.0.0.1", 1, 2, tmp_path / "work", "client", {"client": program}, {})
    client = api.ClientSpec(verb="run", binding="noop", threads=1, shard=0, shards=1)

    async def use() -> Path:
        session = Session("run", config)
        await session.start(api.JobSpec(job_id="job", deadline_ms=60_000, client=client))
        log = session.folder_of("job") / "stderr.log"
        while not (log.exists() and log.stat().st_size):
            await asyncio.sleep(0.05)
        await session.close("no sign of life from the controller")
        return session.file("job", "summary.json")

    assert asyncio.run(use()).read_text() == "written\n"


def test_a_job_that_is_started_while_its_session_closes_is_ended(tmp_path: Path) -> None:
    program = tmp_path / "client-stand-in"
    program.write_text("#!/bin/sh\nexec sleep 300\n")
    program.chmod(0o755)
    config = AgentConfig("node1", "127.0.0.1", 1, 2, tmp_path / "work", "client", {"client": program}, {})
    client = api.ClientSpec(verb="run", binding="noop", threads=1, shard=0, shards=1)
    spec = api.JobSpec(job_id="job", deadline_ms=60_000, client=client)

    async def use() -> list[psutil.Process]:
        session = Session("run", config)
        starting = asyncio.create_task(session.start(spec))
        await asyncio.sleep(0)  # until it waits for its process
        await session.close("no sign of life from the controller")
        with pytest.raises(JobRefusedError, match="closed meanwhile"):
            await starting
        return [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]

    assert asyncio.run(use()) == []
