"""TLS: certificates that are reloaded when their files change, and a certificate authority for sites without one."""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import logging
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rainbow_sched.client.private_files import check_private, write_whole
from rainbow_sched.model.errors import AlreadyExists, Invalid

log = logging.getLogger(__name__)
AUTHORITY_DAYS = 3650  # ten years: a new authority has to be given to all clients
CERTIFICATE_DAYS = 397  # a year and a month, enough for a yearly `rainbow server init --renew`
_A_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Certificate and key of the server; with `ca`, clients must show a certificate signed by it."""

    cert: Path
    key: Path
    ca: Path | None = None


class CertificateReloader:
    """Provides the certificates of each handshake: the current files, or the last valid ones."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._seen = self._stamps()
        self._first = self._read()

    def credentials(self) -> grpc.ServerCredentials:
        """Return the credentials of a gRPC port."""
        return grpc.dynamic_ssl_server_credentials(
            self._first,
            self.changed,  # type: ignore[arg-type]  # None means unchanged, which the stubs do not allow
            require_client_authentication=self._files.ca is not None,
        )

    def changed(self) -> grpc.ServerCertificateConfiguration | None:
        """Return the new certificates if the files have changed since the last call, else None."""
        try:
            stamps = self._stamps()
            if stamps == self._seen:
                return None
            self._seen = stamps
            found = self._read()
        except (Invalid, OSError) as error:
            log.warning("cannot use the new TLS files, keeping the old ones: %s", error)
            return None
        log.info("reloaded the TLS files for new connections")
        return found

    def _stamps(self) -> tuple[tuple[int, int, int], ...]:
        paths = (self._files.cert, self._files.key, self._files.ca)
        found = []
        for path in paths:
            if path is not None:
                try:
                    about = path.stat()
                except OSError as error:
                    raise Invalid(f"cannot read {path}: {error.strerror}") from None
                found.append((about.st_mtime_ns, about.st_size, about.st_ino))
        return tuple(found)

    def _read(self) -> grpc.ServerCertificateConfiguration:
        check_private(self._files.key)
        _check_pair(self._files)
        pair = (read_pem(self._files.key), read_pem(self._files.cert))
        ca = read_pem(self._files.ca) if self._files.ca else None
        return grpc.ssl_server_certificate_configuration([pair], root_certificates=ca)


def _check_pair(files: TlsFiles) -> None:
    """Raise Invalid if the key does not belong to the certificate."""
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files.cert, files.key)
    except (ssl.SSLError, ValueError) as error:
        raise Invalid(f"{files.cert} and {files.key} cannot be used together: {error}") from None


def read_pem(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror}") from None
    if b"-----BEGIN" not in data:
        raise Invalid(f"{path} is not a PEM file")
    return data


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority with its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def make_authority(folder: Path, names: Sequence[str], now: datetime.datetime) -> str:
    """Create an authority, a server certificate for `names` and an agent certificate; return its fingerprint.

    Files: ca.pem, ca.key, server.pem, server.key, agent.pem, agent.key. Keys are readable only by their owner.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if (folder / "ca.key").exists():
        raise AlreadyExists(f"there is an authority in {folder}; renew its certificates with --renew")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Rainbow authority")])
    certificate = (
        _builder(name, name, key.public_key(), now, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write_key(folder / "ca.key", key)
    write_whole(folder / "ca.pem", certificate.public_bytes(serialization.Encoding.PEM), 0o644)
    return renew(folder, names, now)


def renew(folder: Path, names: Sequence[str], now: datetime.datetime) -> str:
    """Issue new certificates for server and agents by the existing authority; return its fingerprint."""
    authority = _load(folder)
    _issue(folder, "server", authority, names, now, ExtendedKeyUsageOID.SERVER_AUTH)
    _issue(folder, "agent", authority, (), now, ExtendedKeyUsageOID.CLIENT_AUTH)
    return fingerprint(authority.certificate.public_bytes(serialization.Encoding.DER))


def fingerprint(der: bytes) -> str:
    """Return the SHA-256 fingerprint of a certificate."""
    return "sha256:" + hashlib.sha256(der).hexdigest()


def _load(folder: Path) -> Authority:
    check_private(folder / "ca.key")
    key = serialization.load_pem_private_key(read_pem(folder / "ca.key"), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise Invalid(f"{folder / 'ca.key'} is not a key that rainbow server init made")
    return Authority(x509.load_pem_x509_certificate(read_pem(folder / "ca.pem")), key)


def _issue(
    folder: Path,
    stem: str,
    authority: Authority,
    names: Sequence[str],
    now: datetime.datetime,
    purpose: x509.ObjectIdentifier,
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, (names[0] if names else f"rainbow {stem}")[:64])])
    builder = (
        _builder(subject, authority.certificate.subject, key.public_key(), now, CERTIFICATE_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([_alternative(one) for one in names]), False)
    certificate = builder.sign(authority.key, hashes.SHA256())
    chain = certificate.public_bytes(serialization.Encoding.PEM) + authority.certificate.public_bytes(
        serialization.Encoding.PEM
    )
    _write_key(folder / f"{stem}.key", key)
    write_whole(folder / f"{stem}.pem", chain, 0o644)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime.datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _A_DAY)
        .not_valid_after(now + days * _A_DAY)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    if not name.isascii() or not name or len(name) > 253:
        raise Invalid(f"{name[:40]!r} is not the name or address of a host")
    return x509.DNSName(name)


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    write_whole(
        path,
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
        0o600,
    )
