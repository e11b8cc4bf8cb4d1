"""Prometheus metrics of an agent, read from its jobs' last statuses at each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from agent.config import AgentConfig
from agent.session import Session

# metric -> (kind of job, member of its status, type, help)
_FROM_STATUS = {
    "strata_tracer_completions": (
        "tracer",
        "completions",
        "counter",
        "requests of which records were to be made",
    ),
    "strata_tracer_emitted": ("tracer", "emitted", "counter", "I/O records written"),
    "strata_tracer_dropped": ("tracer", "dropped", "counter", "I/O records lost"),
    "strata_client_operations": ("client", "operations", "counter", "operations answered in the phase"),
    "strata_client_errors": ("client", "errors", "counter", "operations failed in the phase"),
    "strata_client_operations_per_second": ("client", "ops_per_s", "gauge", "operations in the last second"),
    "strata_client_latency_p99_microseconds": (
        "client",
        "p99_us",
        "gauge",
        "99th percentile of the last second",
    ),
}


class AgentCollector(Collector):
    """Turns the open session's jobs into metrics; labels: node, job."""

    def __init__(self, node: str, session: Callable[[], Session | None]) -> None:
        self._node = node
        self._session = session

    def collect(self) -> Iterator[Metric]:
        session = self._session()
        jobs = list(session.jobs.values()) if session is not None else []
        up = GaugeMetricFamily("strata_agent_jobs_running", "jobs that run now", labels=["node"])
        up.add_metric([self._node], sum(job.running for job in jobs))
        yield up
        for name, (kind, member, metric_type, text) in _FROM_STATUS.items():
            family = (CounterMetricFamily if metric_type == "counter" else GaugeMetricFamily)(
                name, text, labels=["node", "job"]
            )
            for job in jobs:
                value = job.status.get(member)
                # A rate of the last second is none of a job that has ended; its counts stay.
                shown = job.launch.kind == kind and (job.running or metric_type == "counter")
                if shown and isinstance(value, int | float):
                    family.add_metric([self._node, job.job_id], value)
            yield family


def serve_metrics(config: AgentConfig, session: Callable[[], Session | None]) -> None:
    """Serves ``/metrics`` on the node's address. Raises OSError when the port cannot be had."""
    registry = CollectorRegistry()
    registry.register(AgentCollector(config.node, session))
    start_http_server(config.metrics_port, addr=config.address, registry=registry)
