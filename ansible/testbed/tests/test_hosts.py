# SPDX-License-Identifier: Apache-2.0
"""Real hosts: they are hosts, their faults are faults, and nothing stays when they go."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from testbed.base import run_tool
from testbed.host import ssh_command
from testbed.layout import NAME, Host, hosts_up, state_folder

PROGRAM = Path(__file__).resolve().parents[1] / "testbed"
STATE = state_folder()
pytestmark = [
    pytest.mark.root,
    pytest.mark.cluster,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(shutil.which("apt-get") is None, reason="the hosts are made of Debian packages"),
]


def testbed(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0 or not check, done.stderr
    return done


testbed.__test__ = False  # type: ignore[attr-defined]


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def machine() -> dict[str, set[str]]:
    """What hosts could leave behind on this machine, as its own tools see it."""
    processes = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if any(NAME in word or "systemd-nspawn" in word or "wire.py" in word for word in words):
            processes.add(f"{entry.name} {words[0]}")
    groups = {str(path) for path in Path("/sys/fs/cgroup").rglob(NAME)}
    return {
        "processes": processes,
        "control groups": groups,
        "links": set(re.findall(r"^\d+: ([^:@]+)", output("ip", "link"), re.M)),
        "addresses": set(output("ip", "-4", "-o", "address").splitlines()),
        "routes": set(output("ip", "route").splitlines()),
        "namespaces": set(output("ip", "netns").splitlines()),
        "mounts": set(output("findmnt", "-rno", "TARGET").splitlines()),
        "loop devices": set(output("losetup", "-a").splitlines()),
        "packet filter": set(run_tool(STATE, "nft", "list", "tables").splitlines()),
        "forwarding": {Path("/proc/sys/net/ipv4/ip_forward").read_text()},
        "throttles": set(throttles().splitlines()),
        "files": {
            str(path) for folder in ("/run", "/run/systemd", str(STATE.folder)) for path in Path(folder).glob("*")
        },
    }


def throttles() -> str:
    file = Path("/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device")
    return file.read_text() if file.exists() else ""


@pytest.fixture(scope="module")
def hosts() -> Iterator[list[Host]]:
    """Three hosts; when they have gone, all is as it was."""
    if hosts_up(STATE):
        pytest.skip("a test bed is up on this machine: testbed down")
    testbed("build")
    before = machine()
    testbed("up", "3")
    yield hosts_up(STATE)
    testbed("down")
    after = machine()
    for what, things in before.items():
        assert after[what] == things, what
    testbed("down")


def ssh(host: Host, command: str, check: bool = True) -> str:
    done = subprocess.run([*ssh_command(host, STATE), command], capture_output=True, text=True, check=False)
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout.strip()


def reaches(host: Host, peer: Host, count: int = 1) -> int:
    """Echoes that came back, of so many sent within a second or two."""
    said = ssh(host, f"ping -n -q -i 0.02 -c {count} -W 1 {peer.name}", check=False)
    match = re.search(r"(\d+) received", said)
    return int(match[1]) if match else 0


def round_trip_ms(host: Host, peer: Host) -> float:
    """The shortest of five."""
    match = re.search(r"= ([\d.]+)/", ssh(host, f"ping -n -q -i 0.1 -c 5 {peer.name}"))
    assert match
    return float(match[1])


def seconds_of(host: Host, command: str) -> float:
    begin = time.monotonic()
    ssh(host, command)
    return time.monotonic() - begin


def fault(host: Host, *words: str) -> None:
    testbed("fault", host.name, *words)


def test_each_is_a_host_of_its_own(hosts: list[Host]) -> None:
    assert [ssh(host, "hostname") for host in hosts] == ["tb1", "tb2", "tb3"]
    assert {ssh(host, "cat /proc/1/comm") for host in hosts} == {"systemd"}
    assert {ssh(host, "systemctl is-system-running --wait", check=False) for host in hosts} == {"running"}
    assert len({ssh(host, "cat /etc/machine-id") for host in hosts}) == 3
    assert len({ssh(host, "stat -c %d /data") for host in hosts}) == 3
    assert reaches(hosts[0], hosts[2]) == 1


def test_no_host_can_set_the_clock(hosts: list[Host]) -> None:
    """Asked for the time that it is, so that a defect here does not harm the machine."""
    for refused in (ssh(hosts[0], 'date -s "$(date -Ins)" 2>&1', check=False), clock_by_exec(hosts[0])):
        assert "cannot set date" in refused
    assert ssh(hosts[0], "systemctl is-active systemd-timesyncd chrony ntp", check=False).split() == ["inactive"] * 3


def clock_by_exec(host: Host) -> str:
    return testbed("exec", host.name, "sh", "-c", 'date -s "$(date -Ins)"', check=False).stderr


def test_io_of_a_host_is_counted_for_its_device_only(hosts: list[Host]) -> None:
    def written_sectors(host: Host) -> int:
        name = Path(host.device(STATE)).name
        return int(Path(f"/sys/block/{name}/stat").read_text().split()[6])

    for host in hosts:
        ssh(host, "sync -f /data")
    before = [written_sectors(host) for host in hosts]
    ssh(hosts[1], "dd if=/dev/zero of=/data/x bs=1M count=8 oflag=direct status=none && rm /data/x")
    grown = [written_sectors(host) - was for host, was in zip(hosts, before, strict=True)]
    assert grown[0] == grown[2] == 0
    assert grown[1] >= 8 * 2048


def test_a_second_set_is_refused(hosts: list[Host]) -> None:
    done = testbed("up", "3", check=False)
    assert done.returncode == 3
    assert "tb1, tb2, tb3 are up already" in done.stderr


def test_hosts_come_and_go_beside_others(hosts: list[Host]) -> None:
    before = machine()
    testbed("up", "1", "--first", "5")
    fifth = Host(5)
    assert hosts_up(STATE) == [*hosts, fifth]
    assert [ssh(host, "hostname") for host in (fifth, hosts[0])] == ["tb5", "tb1"]
    assert reaches(fifth, hosts[0]) == 1
    testbed("down", fifth.name)
    testbed("up", "1", "--first", "5")
    assert ssh(fifth, "hostname") == "tb5", "the one that has taken its place is found at once"
    assert reaches(hosts[0], fifth) == 1
    testbed("down", fifth.name)
    left = {what: things - before[what] for what, things in machine().items()}
    assert not any(left.values()), left
    assert ssh(hosts[0], "hostname") == "tb1"


def test_commands_wait_for_each_other(hosts: list[Host]) -> None:
    lock = os.open(STATE.folder, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    waiting = subprocess.Popen([PROGRAM, "fault", hosts[0].name, "heal"])
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(1)
    os.close(lock)
    assert waiting.wait(30) == 0


def test_cut_and_heal(hosts: list[Host]) -> None:
    fault(hosts[2], "cut")
    assert reaches(hosts[0], hosts[2]) == 0
    assert reaches(hosts[0], hosts[1]) == 1
    fault(hosts[2], "heal")
    assert reaches(hosts[0], hosts[2]) == 1


def test_one_way(hosts: list[Host]) -> None:
    listener = (
        "timeout 3 python3 -c 'import socket; s=socket.socket(2, 2); s.bind((\"\", 999)); print(s.recv(9).decode())'"
    )
    fault(hosts[1], "deaf", "tb1")
    assert reaches(hosts[0], hosts[1]) == 0
    with subprocess.Popen([*ssh_command(hosts[0], STATE), listener], stdout=subprocess.PIPE, text=True) as heard:
        # From tb2 to tb1, again and again until somebody listens.
        code = "import socket, time; s = socket.socket(2, 2)"
        send = f"{code}; [(s.sendto(b'hello', ('tb1', 999)), time.sleep(.1)) for _ in range(20)]"
        testbed("exec", "tb2", "python3", "-c", send)
        assert heard.communicate()[0] == "hello\n"
    fault(hosts[1], "heal")
    assert reaches(hosts[0], hosts[1]) == 1


def test_loss(hosts: list[Host]) -> None:
    fault(hosts[1], "loss", "50")
    received = reaches(hosts[0], hosts[1], 100)
    fault(hosts[1], "heal")
    # Binomial with n=100, p=1/2: outside of 5 sigma once in a million.
    assert 25 <= received <= 75


def test_delay_is_in_the_round_trip_and_all_bytes_arrive(hosts: list[Host]) -> None:
    assert round_trip_ms(hosts[0], hosts[1]) < 10
    fault(hosts[1], "delay", "25")
    assert 50 <= round_trip_ms(hosts[0], hosts[1]) < 75
    assert len(ssh(hosts[1], "head -c 300000 /dev/zero | base64 -w 0")) == 400_000
    fault(hosts[1], "heal")
    assert round_trip_ms(hosts[0], hosts[1]) < 10


def test_rate(hosts: list[Host]) -> None:
    fault(hosts[1], "rate", "8000")
    seconds = seconds_of(hosts[1], "head -c 2000000 /dev/urandom | base64")
    fault(hosts[1], "heal")
    # 2.7 MB at 1 MB/s
    assert 2.2 < seconds < 10


def test_kill(hosts: list[Host]) -> None:
    ssh(hosts[1], "systemd-run -q --unit=victim sleep 600")
    fault(hosts[1], "kill", "victim.service")
    shown = "systemctl show -P Result victim.service"
    deadline = time.monotonic() + 5
    while ssh(hosts[1], shown) != "signal" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert ssh(hosts[1], shown) == "signal"
    ssh(hosts[1], "systemctl reset-failed victim.service")


def test_freeze(hosts: list[Host]) -> None:
    ticks = "cat /proc/uptime >/dev/null; echo alive"
    fault(hosts[1], "freeze")
    frozen = subprocess.run(
        [*ssh_command(hosts[1], STATE), ticks], capture_output=True, text=True, timeout=10, check=False
    )
    assert frozen.returncode != 0
    fault(hosts[1], "heal")
    assert ssh(hosts[1], ticks) == "alive"


def test_full_disk(hosts: list[Host]) -> None:
    fault(hosts[1], "full-disk", "1")
    assert "No space left" in ssh(
        hosts[1], "head -c 3000000 /dev/zero 2>&1 >/data/x | cat; cat /dev/zero 2>&1 >/data/x", check=False
    )
    assert "No space left" not in ssh(hosts[0], "head -c 3000000 /dev/zero 2>&1 >/data/x; rm /data/x")
    fault(hosts[1], "heal")
    ssh(hosts[1], "head -c 3000000 /dev/zero >/data/x && rm /data/x")


@pytest.mark.skipif(not Path("/sys/fs/cgroup/blkio").is_dir(), reason="no blkio controller of cgroup v1")
def test_slow_disk(hosts: list[Host]) -> None:
    write = "dd if=/dev/zero of=/data/x bs=1M count=4 oflag=direct status=none && rm /data/x"
    fault(hosts[1], "slow-disk", "2000000")
    slow, other = seconds_of(hosts[1], write), seconds_of(hosts[0], write)
    fault(hosts[1], "heal")
    assert slow > 1.5 > other
    assert seconds_of(hosts[1], write) < 1.5
    assert throttles() == ""


def test_crash_and_start(hosts: list[Host]) -> None:
    ssh(hosts[1], "echo kept > /data/kept && sync -f /data && echo here > /etc/here")
    born = ssh(hosts[1], "stat -c %Y /proc/1")
    fault(hosts[1], "crash")
    assert reaches(hosts[0], hosts[1]) == 0
    assert "off" in testbed("list").stdout
    assert testbed("exec", "tb2", "true", check=False).returncode == 3
    testbed("start", "tb2")
    assert ssh(hosts[1], "cat /data/kept /etc/here") == "kept\nhere"
    assert ssh(hosts[1], "stat -c %Y /proc/1") > born


def test_reboot_from_inside(hosts: list[Host]) -> None:
    before = ssh(hosts[2], "cat /proc/sys/kernel/random/boot_id")
    ssh(hosts[2], "systemctl reboot", check=False)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        after = ssh(hosts[2], "cat /proc/sys/kernel/random/boot_id", check=False)
        if after not in ("", before):
            break
        time.sleep(0.2)
    assert after not in ("", before)
