"""Facts about the node: hardware, kernel, disks, JVM, clock, and what can be traced here."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import psutil

from agent.config import AgentConfig


def collect_facts(config: AgentConfig) -> dict[str, Any]:
    """All facts as one JSON-ready object. A fact that cannot be had is null, never invented."""
    memory = psutil.virtual_memory()
    return {
        "schema_version": 1,
        "node": config.node,
        "address": config.address,
        "role": config.role,
        "hostname": platform.node(),
        "boot_id": _read("/proc/sys/kernel/random/boot_id"),
        "os": _os_name(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cpu_model": _cpu_model(),
        "cpus": psutil.cpu_count(),
        "memory_bytes": memory.total,
        "clocksource": _read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "java": _java_version(),
        "python": platform.python_version(),
        "data": _data_facts(config),
        "tracing": tracer_check(config),
    }


def tracer_check(config: AgentConfig) -> dict[str, Any]:
    """What ``strata-iotrace --check`` says, or why there is no such answer."""
    program = config.programs.get("tracer")
    if program is None or not program.exists():
        return {
            "can_trace": False,
            "reason": "the tracer is not built on this node (clang, libbpf and bpftool build it)",
        }
    try:
        answer = subprocess.run([program, "--check"], capture_output=True, text=True, timeout=20, check=False)
        return dict(json.loads(answer.stdout))
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return {"can_trace": False, "reason": f"strata-iotrace --check gave no answer: {error}"}


def block_device_of(path: Path) -> str:
    """``major:minor`` of the block device under the file system that holds ``path``."""
    device = path.stat().st_dev
    return f"{os.major(device)}:{os.minor(device)}"


def _data_facts(config: AgentConfig) -> dict[str, Any] | None:
    if config.data_path is None:
        return None
    number = block_device_of(config.data_path)
    sys_path = Path("/sys/dev/block") / number
    usage = psutil.disk_usage(str(config.data_path))
    return {
        "path": str(config.data_path),
        "own_disk": config.data_is_own_disk,
        "own_disk_reason": config.data_disk_reason or None,
        "device": sys_path.resolve().name if sys_path.exists() else None,
        "device_number": number,
        "file_system": _file_system(config.data_path),
        "scheduler": _read(request_queue(sys_path) / "scheduler"),
        "rotational": _read(request_queue(sys_path) / "rotational"),
        "backing": _loop_backing(sys_path),
        "size_bytes": usage.total,
        "free_bytes": usage.free,
    }


def request_queue(sys_path: Path) -> Path:
    """The folder of a block device's request queue in sysfs; that of a partition is its disk's."""
    device = sys_path.resolve()
    return (device.parent if (device / "partition").exists() else device) / "queue"


def _loop_backing(sys_path: Path) -> dict[str, str | None] | None:
    if not (sys_path / "loop").exists():
        return None
    return {"kind": "loop device on a file", "direct_io": _read(sys_path / "loop/dio")}


def _file_system(path: Path) -> str | None:
    best = max(
        (p for p in psutil.disk_partitions(all=True) if path.resolve().is_relative_to(p.mountpoint)),
        key=lambda p: len(p.mountpoint),
        default=None,
    )
    return f"{best.fstype} ({best.opts})" if best else None


def _read(path: str | Path) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _cpu_model() -> str | None:
    lines = (_read("/proc/cpuinfo") or "").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)


def _os_name() -> str | None:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        return None


def _java_version() -> str | None:
    """Of the java that runs the load client: it is chosen as in ycsb-fork/bin/launch.sh."""
    own = Path(os.environ.get("JAVA_HOME") or "/nonexistent") / "bin" / "java"
    java = str(own) if os.access(own, os.X_OK) else "java"
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    # Not always the first line: before it stands what was taken from JAVA_TOOL_OPTIONS.
    lines = answer.stderr.splitlines() if answer.returncode == 0 else []
    return next((line for line in lines if " version " in line), None)
