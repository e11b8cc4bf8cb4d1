"""The deployment's own certificate authority: controller and agents trust it, and nobody else.

All files lie in one folder: ``ca.pem``, ``ca-key.pem``, and for each node (and for the ``controller``)
``NAME.pem`` and ``NAME-key.pem``. Keys are ECDSA P-256, unencrypted, readable by their owner only.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY, CONTROLLER = "ca", "controller"
VALID_FOR = dt.timedelta(days=30)
# Renewed while what runs still has a week with the old one.
RENEW_BEFORE = dt.timedelta(days=7)
# Clocks of the nodes may differ.
BACKDATED = dt.timedelta(hours=1)


@dataclass(frozen=True)
class Identity:
    """Paths of one certificate, its key, and the authority that both sides trust."""

    ca: Path
    certificate: Path
    key: Path


def identity(folder: Path, name: str) -> Identity:
    """Where the files of ``name`` lie; they need not exist."""
    return Identity(folder / "ca.pem", folder / f"{name}.pem", folder / f"{name}-key.pem")


def ensure_pki(folder: Path, addresses: Mapping[str, str], *, now: dt.datetime | None = None) -> list[str]:
    """Makes what is missing, damaged, near its end or for another address. Returns the names issued.

    ``addresses``: node name -> IP address literal. A new authority means new certificates for all.
    """
    instant = now or dt.datetime.now(dt.UTC)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    authority = _load_authority(folder, instant)
    issued = []
    if authority is None:
        authority = _new_authority(folder, instant)
        issued.append(AUTHORITY)
    for name, address in _unfit(folder, authority, addresses, instant):
        _issue(identity(folder, name), authority, name, address, instant)
        issued.append(name)
    return issued


def is_current(folder: Path, addresses: Mapping[str, str], *, now: dt.datetime | None = None) -> bool:
    """Whether ``ensure_pki`` would issue nothing."""
    instant = now or dt.datetime.now(dt.UTC)
    authority = _load_authority(folder, instant)
    return authority is not None and not list(_unfit(folder, authority, addresses, instant))


def _load_authority(folder: Path, instant: dt.datetime) -> Pair | None:
    return _load(folder / f"{AUTHORITY}.pem", folder / f"{AUTHORITY}-key.pem", instant)


def _unfit(
    folder: Path, authority: Pair, addresses: Mapping[str, str], instant: dt.datetime
) -> Iterator[tuple[str, str | None]]:
    """Name and address of those who need another certificate."""
    wanted: dict[str, str | None] = {CONTROLLER: None, **addresses}
    for name, address in wanted.items():
        files = identity(folder, name)
        found = _load(files.certificate, files.key, instant)
        if found is None or not _fits(found[0], authority[0], name, address):
            yield name, address


Pair = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


def _load(certificate_path: Path, key_path: Path, instant: dt.datetime) -> Pair | None:
    """Certificate and key when they are there, belong together and are not near their end."""
    try:
        certificate = x509.load_pem_x509_certificate(certificate_path.read_bytes())
        key = serialization.load_pem_private_key(key_path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError):
        return None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or certificate.public_key() != key.public_key():
        return None
    if not certificate.not_valid_before_utc <= instant < certificate.not_valid_after_utc - RENEW_BEFORE:
        return None
    return certificate, key


def _fits(certificate: x509.Certificate, ca: x509.Certificate, name: str, address: str | None) -> bool:
    """Whether a certificate was issued by this authority for this name and address."""
    try:
        certificate.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        return False
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return set(names) == set(_alternative_names(name, address))


def _alternative_names(name: str, address: str | None) -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = [x509.DNSName(name)]
    if address is not None:
        names.append(x509.IPAddress(ipaddress.ip_address(address)))
    return names


def _builder(
    subject: str, issuer: str, key: ec.EllipticCurvePrivateKey, instant: dt.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(instant - BACKDATED)
        .not_valid_after(instant + VALID_FOR)
    )


AUTHORITY_NAME = "stratabench deployment"


def _new_authority(folder: Path, instant: dt.datetime) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        _builder(AUTHORITY_NAME, AUTHORITY_NAME, key, instant)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write_pair(folder / "ca.pem", folder / "ca-key.pem", certificate, key)
    return certificate, key


def _issue(files: Identity, authority: Pair, name: str, address: str | None, instant: dt.datetime) -> None:
    """The controller may only be a client; an agent only a server."""
    ca_key = authority[1]
    key = ec.generate_private_key(ec.SECP256R1())
    usage = ExtendedKeyUsageOID.SERVER_AUTH if address else ExtendedKeyUsageOID.CLIENT_AUTH
    certificate = (
        _builder(name, AUTHORITY_NAME, key, instant)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=True)
        .add_extension(x509.SubjectAlternativeName(_alternative_names(name, address)), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    _write_pair(files.certificate, files.key, certificate, key)


def _write_pair(
    certificate_path: Path, key_path: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> None:
    encoded = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    _write_private(key_path, encoded)
    _write_private(certificate_path, certificate.public_bytes(serialization.Encoding.PEM))


def _write_private(path: Path, content: bytes) -> None:
    """Never readable by others, not even for the instant between creation and a chmod."""
    temporary = path.with_suffix(".new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.replace(path)
