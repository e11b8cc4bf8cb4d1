"""Round-trip times and retransmits of each peer, held against what the kernel tells the sockets and counts itself."""

from __future__ import annotations

import csv
import json
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tracer.tests.test_context import has_loopback
from tracer.tests.tracing import tracing, unless_hidden

pytestmark = [pytest.mark.bpf, pytest.mark.root]
TCPI_RTT = 68  # of struct tcp_info, us, smoothed


def lines_of(path: Path, peer: str) -> list[dict[str, str]]:
    with path.open() as file:
        return [line for line in csv.DictReader(file) if line["peer"] == peer]


def smoothed_us(connection: socket.socket) -> int:
    (rtt_us,) = struct.unpack_from("I", connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 128), TCPI_RTT)
    return int(rtt_us)


def exchanges(server_address: str, client_address: str, count: int) -> Iterator[int]:
    """After each exchange, the round-trip time that the kernel tells the client."""
    family = socket.AF_INET6 if ":" in server_address else socket.AF_INET
    with (
        socket.create_server((server_address, 0), family=family) as server,
        socket.create_connection(server.getsockname()[:2], source_address=(client_address, 0)) as client,
    ):
        answering, _ = server.accept()
        with answering:
            yield smoothed_us(client)
            for _ in range(count):
                client.sendall(b"x")
                answering.recv(1)
                answering.sendall(b"y")
                client.recv(1)
                yield smoothed_us(client)


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


def weighed_us(lines: list[dict[str, str]]) -> float:
    return sum(int(line["tcp_rtt_samples"]) * float(line["tcp_rtt_mean_us"] or 0) for line in lines)


@pytest.mark.skipif(not has_loopback(), reason="127.0.0.1 cannot be reached")
def test_each_peer_has_its_own_round_trip_times(disk: str, tmp_path: Path) -> None:
    path, context = tmp_path / "peers.csv", tmp_path / "context.csv"
    options = ["--device", disk, "--peers", str(path), "--context", str(context)]
    with tracing(tmp_path / "io.bin", *options) as trace:
        told = {f"127.0.91.{n}": list(exchanges(f"127.0.91.{n}", "127.0.92.1", 300 * n)) for n in (1, 2)}
        if has_ipv6():
            told["::1"] = list(exchanges("::1", "::1", 450))
        assert trace.stop() == 0
    for peer, rtts_us in told.items():
        lines = lines_of(path, peer)
        ends = 2 if peer == "::1" else 1  # the other end's too
        segments = sum(int(line["tcp_rtt_samples"]) for line in lines)
        assert segments >= ends * (len(rtts_us) - 1)  # an answer each, and acknowledgements of their own
        assert segments <= ends * (2 * len(rtts_us) + 4)
        mean_us = weighed_us(lines) / segments
        if ends == 1:
            assert min(rtts_us) - 1 <= mean_us <= max(rtts_us) + 1
        else:
            assert 0 < mean_us < 10 * max(rtts_us)
        assert all(int(line["tcp_rtt_p50_us"]) <= int(line["tcp_rtt_p99_us"]) for line in lines)
        assert {line["tcp_retransmits"] for line in lines} == {"0"}
    # What the servers' ends saw of the client.
    assert sum(int(line["tcp_rtt_samples"]) for line in lines_of(path, "127.0.92.1")) >= 900
    # The context's are the same, all together; between the two reads of a second some may come, also from elsewhere.
    with path.open() as file, context.open() as context_file:
        of_peers, of_all = list(csv.DictReader(file)), list(csv.DictReader(context_file))
    rtts = sum(int(line["tcp_rtt_samples"]) for line in of_peers)
    assert sum(int(line["tcp_rtt_samples"]) for line in of_all) == pytest.approx(rtts, rel=0.01, abs=10)
    # Of means that are rounded to a microsecond, which is a twentieth here.
    of_test = weighed_us([line for line in of_peers if line["peer"] in (*told, "127.0.92.1")])
    assert of_test * 0.9 <= weighed_us(of_all) <= weighed_us(of_peers) * 1.1 + 10_000


@pytest.mark.skipif(not has_loopback(), reason="127.0.0.1 cannot be reached")
def test_more_peers_than_are_told_apart(disk: str, tmp_path: Path) -> None:
    """Each sends one segment with data and some without, which all are somewhere."""
    path, context = tmp_path / "peers.csv", tmp_path / "context.csv"
    servers = [f"127.0.{94 + n // 250}.{n % 250 + 1}" for n in range(1100)]
    options = ["--device", disk, "--peers", str(path), "--context", str(context)]
    with tracing(tmp_path / "io.bin", *options) as trace:
        for server in servers:
            assert len(list(exchanges(server, "127.0.92.1", 1))) == 2
        assert trace.stop() == 0
    with path.open() as file, context.open() as context_file:
        lines, of_all = list(csv.DictReader(file)), list(csv.DictReader(context_file))
    samples: dict[str, int] = {}
    for line in lines:
        samples[line["peer"]] = samples.get(line["peer"], 0) + int(line["tcp_rtt_samples"])
    apart = [server for server in servers if server in samples]
    assert len(samples) == 1024  # beside `others`, 1,023
    assert samples["others"] >= len(servers) - len(apart) >= 77
    assert apart == servers[: len(apart)]  # the first ones
    assert sum(samples.values()) == pytest.approx(sum(int(line["tcp_rtt_samples"]) for line in of_all), rel=0.01)


# In a network of its own, with the queue of the first argument, until all has arrived or the seconds of the second are
# over; says what the kernel has counted there.
LOSING = """
import json, select, socket, subprocess, sys, time
for command in ("ip link set lo up mtu 1500", "tc qdisc add dev lo root tbf rate " + sys.argv[1]):
    subprocess.run(command.split(), check=True)
with socket.create_server(("127.0.93.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
    answering, _ = server.accept()
    client.setblocking(False)
    end, left = time.monotonic() + float(sys.argv[2]), 256 << 10
    unsent = left
    while left and (wait := end - time.monotonic()) > 0:
        readable, writable, _ = select.select([answering], [client] if unsent else [], [], wait)
        unsent -= client.send(bytes(unsent)) if writable else 0
        left -= len(answering.recv(1 << 16)) if readable else 0
    counters = {}
    for path in ("/proc/net/snmp", "/proc/net/netstat"):
        lines = [line.split() for line in open(path)]
        for names, values in zip(lines[::2], lines[1::2]):
            counters |= dict(zip(names[1:], values[1:])) if names[0] in ("Tcp:", "TcpExt:") else {}
print(json.dumps({name: int(counters[name]) for name in ("RetransSegs", "TCPRetransFail")}))
"""
# Shorter than the ten segments that are sent at once at first, so that some are lost however slow the machine is.
SHORT_QUEUE = ("16mbit burst 5kb limit 10kb", 30)
# What is sent there leaves so late that the kernel wants to send it again, and must not: it has not left yet.
SLOW_QUEUE = ("8kbit burst 2000 limit 100kb", 4)


def tells_of_failures(tracefs: Path) -> bool:
    """The tracepoint of older kernels leaves out what the node's own queue has refused, RetransSegs does not."""
    return "int err;" in (tracefs / "events" / "tcp" / "tcp_retransmit_skb" / "format").read_text()


def sent_again() -> dict[int, int]:
    """Of each network in which there is a process."""
    counts = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            titles, numbers = (
                line.split() for line in (process / "net/snmp").read_text().splitlines() if line.startswith("Tcp:")
            )
            counts[(process / "ns/net").stat().st_ino] = int(numbers[titles.index("RetransSegs")])
    return counts


@pytest.mark.skipif(shutil.which("tc") is None or shutil.which("unshare") is None, reason="no tc, or no unshare")
@pytest.mark.parametrize("queue", [SHORT_QUEUE, SLOW_QUEUE], ids=["short", "slow"])
def test_what_was_sent_again(disk: str, tmp_path: Path, queue: tuple[str, int]) -> None:
    path, context = tmp_path / "peers.csv", tmp_path / "context.csv"
    options = ["--device", disk, "--peers", str(path), "--context", str(context)]
    before = sent_again()
    with unless_hidden("tcp/tcp_retransmit_skb", tmp_path), tracing(tmp_path / "io.bin", *options) as trace:
        command = ["unshare", "--net", sys.executable, "-c", LOSING, *map(str, queue)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
        assert trace.stop() == 0
        counters, failures = json.loads(done.stdout), tells_of_failures(tmp_path / "tracefs")
        counted = counters["RetransSegs"] - (0 if failures else counters["TCPRetransFail"])
        if failures and queue == SLOW_QUEUE:
            log = (tmp_path / "tracefs" / "instances" / "strata-tests" / "trace").read_text()
            assert log.count("err=-16") > counted  # EBUSY
        elsewhere = sum(max(0, count - before.get(network, 0)) for network, count in sent_again().items())
        assert counted > 0
        assert sum(int(line["tcp_retransmits"]) for line in lines_of(path, "127.0.93.1")) == counted
        with context.open() as file:
            in_all = sum(int(line["tcp_retransmits"]) for line in csv.DictReader(file))
        assert counted <= in_all <= counted + elsewhere


def test_a_place_that_cannot_be_written(binary: Path, tmp_path: Path) -> None:
    command = [str(binary), "--output", str(tmp_path / "io.bin"), "--peers", str(tmp_path / "missing" / "p.csv")]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    assert result.returncode == 4
    assert "--peers" in result.stderr and result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
