"""The deployment's certificates: who may speak to whom, for how long, and who can read the keys."""

from __future__ import annotations

import datetime as dt
import ipaddress
import socket
import ssl
import threading
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from controller.pki import CONTROLLER, RENEW_BEFORE, VALID_FOR, ensure_pki, identity, is_current

NODES = {"node1": "127.0.0.1", "node2": "127.0.0.2"}
EVERYONE = ["ca", CONTROLLER, *NODES]


def certificate(folder: Path, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(identity(folder, name).certificate.read_bytes())


def test_a_second_call_issues_nothing(tmp_path: Path) -> None:
    assert ensure_pki(tmp_path / "pki", NODES) == EVERYONE
    assert ensure_pki(tmp_path / "pki", NODES) == []


def test_names_addresses_and_purpose(tmp_path: Path) -> None:
    ensure_pki(tmp_path, NODES)
    ca = x509.load_pem_x509_certificate((tmp_path / "ca.pem").read_bytes())
    assert ca.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    for name, address in {**NODES, CONTROLLER: None}.items():
        leaf = certificate(tmp_path, name)
        leaf.verify_directly_issued_by(ca)
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName) == [name]
        assert names.get_values_for_type(x509.IPAddress) == ([ipaddress.ip_address(address)] if address else [])
        usage = list(leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
        assert usage == [ExtendedKeyUsageOID.SERVER_AUTH if address else ExtendedKeyUsageOID.CLIENT_AUTH]


def test_only_the_owner_reads_anything(tmp_path: Path) -> None:
    ensure_pki(tmp_path / "pki", NODES)
    assert (tmp_path / "pki").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "pki").iterdir()} == {0o600}


def test_another_address_and_a_new_node(tmp_path: Path) -> None:
    ensure_pki(tmp_path, NODES)
    assert ensure_pki(tmp_path, NODES | {"node2": "127.0.0.9"}) == ["node2"]
    assert ensure_pki(tmp_path, NODES | {"node2": "127.0.0.9", "node3": "127.0.0.3"}) == ["node3"]


def test_renewed_before_the_end(tmp_path: Path) -> None:
    begin = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
    assert not is_current(tmp_path, NODES, now=begin)
    assert ensure_pki(tmp_path, NODES, now=begin) == EVERYONE
    late = begin + VALID_FOR - RENEW_BEFORE
    assert ensure_pki(tmp_path, NODES, now=late - dt.timedelta(minutes=1)) == []
    assert is_current(tmp_path, NODES, now=late - dt.timedelta(minutes=1))
    assert not is_current(tmp_path, NODES | {"node2": "127.0.0.9"}, now=begin)
    assert not is_current(tmp_path, NODES, now=late)
    assert ensure_pki(tmp_path, NODES, now=begin + VALID_FOR - RENEW_BEFORE) == EVERYONE


@pytest.mark.parametrize("damage", ["missing", "empty", "of another"])
@pytest.mark.parametrize("suffix", [".pem", "-key.pem"])
def test_damaged_files_are_replaced(tmp_path: Path, damage: str, suffix: str) -> None:
    ensure_pki(tmp_path, NODES)
    path = tmp_path / f"node1{suffix}"
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(b"" if damage == "empty" else (tmp_path / f"node2{suffix}").read_bytes())
    assert ensure_pki(tmp_path, NODES) == ["node1"]


def test_a_new_authority_means_new_certificates(tmp_path: Path) -> None:
    ensure_pki(tmp_path, NODES)
    (tmp_path / "ca-key.pem").unlink()
    assert ensure_pki(tmp_path, NODES) == EVERYONE


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """Both sides of one mutual TLS connection; raises what the server's side raised."""
    failed: list[Exception] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            try:
                with listener.accept()[0] as raw, server.wrap_socket(raw, server_side=True) as channel:
                    channel.sendall(b"x")
            except OSError as error:
                failed.append(error)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with (
                socket.create_connection(listener.getsockname()) as raw,
                client.wrap_socket(raw, server_hostname="127.0.0.1") as channel,
            ):
                channel.recv(1)
        finally:
            thread.join(10)
    if failed:
        raise failed[0]


def context(folder: Path, name: str, purpose: ssl.Purpose) -> ssl.SSLContext:
    files = identity(folder, name)
    made = ssl.create_default_context(purpose, cafile=str(files.ca))
    made.load_cert_chain(files.certificate, files.key)
    if purpose is ssl.Purpose.CLIENT_AUTH:
        made.verify_mode = ssl.CERT_REQUIRED
    return made


def test_mutual_tls_works_and_strangers_are_refused(tmp_path: Path) -> None:
    ensure_pki(tmp_path / "ours", NODES)
    ensure_pki(tmp_path / "theirs", NODES)
    node = context(tmp_path / "ours", "node1", ssl.Purpose.CLIENT_AUTH)
    handshake(node, context(tmp_path / "ours", CONTROLLER, ssl.Purpose.SERVER_AUTH))
    with pytest.raises(OSError):
        handshake(node, context(tmp_path / "theirs", CONTROLLER, ssl.Purpose.SERVER_AUTH))
    # A node's certificate gives no right to command another node.
    with pytest.raises(OSError):
        handshake(node, context(tmp_path / "ours", "node2", ssl.Purpose.SERVER_AUTH))
    # One node cannot take another's place.
    with pytest.raises(OSError):
        other = context(tmp_path / "ours", "node2", ssl.Purpose.CLIENT_AUTH)
        handshake(other, context(tmp_path / "ours", CONTROLLER, ssl.Purpose.SERVER_AUTH))
