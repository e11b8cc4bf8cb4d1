"""The lease between a controller and an agent: jobs live no longer than the session that started them."""

from __future__ import annotations

import asyncio
import logging
import shutil
from pathlib import Path

from agent.api import agent_pb2 as api
from agent.config import AgentConfig
from agent.jobs import STOP_GRACE_S, Job
from agent.programs import JobRefusedError, check_job_id, plan_launch

LOG = logging.getLogger("agent")
_QUEUE_EVENTS = 10_000


class Session:
    """One controller's run on this node: its jobs, its folder, its events."""

    def __init__(self, run_id: str, config: AgentConfig) -> None:
        self.run_id = check_job_id(run_id)
        self.config = config
        self.folder = config.work_dir / self.run_id
        self.jobs: dict[str, Job] = {}
        self._closed = False
        self.events: asyncio.Queue[api.JobEvent] = asyncio.Queue(_QUEUE_EVENTS)
        # What an earlier run left is gone now; the same run's files stay, for a controller that comes back for them.
        config.work_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        for folder in config.work_dir.iterdir():
            if folder != self.folder:
                shutil.rmtree(folder, ignore_errors=True)
        self.folder.mkdir(exist_ok=True, mode=0o700)

    async def start(self, spec: api.JobSpec) -> api.JobEvent:
        """Starts a job. Raises JobRefusedError for a bad specification, OSError when the process cannot start."""
        job_id = check_job_id(spec.job_id)
        if job_id in self.jobs:
            raise JobRefusedError(f"job {job_id} was started already in this session")
        folder = self.folder / job_id
        folder.mkdir(mode=0o700)
        try:
            launch = plan_launch(spec, self.config, folder)
            job = Job(job_id, launch, spec.deadline_ms / 1000, self._publish)
            await job.start()
            if self._closed:  # while the process was started: nobody would end it
                await job.stop(STOP_GRACE_S)
                raise JobRefusedError(f"job {job_id}: the session was closed meanwhile")
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)  # so that it may be tried again
            raise
        self.jobs[job_id] = job
        LOG.info("started %s: %s", job_id, " ".join(launch.argv))
        return job.last_event

    def job(self, job_id: str) -> Job:
        """The job of that name. Raises JobRefusedError."""
        if job_id not in self.jobs:
            raise JobRefusedError(f"no job {job_id!r} in this session")
        return self.jobs[job_id]

    def folder_of(self, job_id: str) -> Path:
        """The folder of a job of this run. Raises JobRefusedError."""
        folder = self.folder / check_job_id(job_id)
        if not folder.is_dir():
            raise JobRefusedError(f"no job {job_id!r} in this run")
        return folder

    def file(self, job_id: str, name: str) -> Path:
        """A file that a job wrote, never one outside its folder. Raises JobRefusedError."""
        path = self.folder_of(job_id) / Path(name).name
        if path.is_symlink() or not path.is_file():
            raise JobRefusedError(f"{job_id} has no file {name!r}")
        return path

    async def close(self, because: str) -> None:
        """Ends every job that still runs; their files stay until the next session."""
        self._closed = True
        running = [job for job in self.jobs.values() if job.running]
        for job in running:
            LOG.warning("stopping %s: %s", job.job_id, because)
        await asyncio.gather(*(job.stop(STOP_GRACE_S, because) for job in running))

    def _publish(self, event: api.JobEvent) -> None:
        # Only statuses can pile up behind a slow controller, and each replaces the one before.
        if self.events.full():
            self.events.get_nowait()
        self.events.put_nowait(event)
