"""Servers that are made for real on this machine, good and bad: how the diagnosis sees them."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import contextmanager
from datetime import datetime, timezone

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis import reach
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from .test_real import found

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("state", [reach.REFUSED, reach.SILENT, reach.OPEN])
def test_a_server_that_refuses_is_told_from_one_that_is_silent(state, monkeypatch):
    monkeypatch.setattr(reach, "SECONDS", 0.3)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        fillers = []
        if state != reach.REFUSED:
            server.listen(0)
        if state == reach.SILENT:  # a full queue answers nobody
            for _number in range(4):
                filler = socket.socket()
                filler.setblocking(False)  # noqa: FBT003 - its only argument
                filler.connect_ex(server.getsockname())
                fillers.append(filler)
        try:
            assert reach.server("127.0.0.1", server.getsockname()[1]).state == state
        finally:
            for filler in fillers:
                filler.close()


def test_a_name_that_nobody_knows():
    assert reach.resolved("no-such-name.invalid").addresses == []
    assert reach.server("no-such-name.invalid", 443).state == reach.UNKNOWN
    assert reach.resolved("x" * 300).problem


@contextmanager
def tls(tmp_path, until):
    """Serve a certificate of its own, which ends in the year ``until``, on a port of this machine."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    own = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    signed = (
        x509.CertificateBuilder(name, name, own.public_key(), 4711)
        .not_valid_before(datetime(2020, 1, 1, tzinfo=timezone.utc))
        .not_valid_after(datetime(until, 1, 1, tzinfo=timezone.utc))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(own, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.TraditionalOpenSSL
    key.write_bytes(own.private_bytes(serialization.Encoding.PEM, form, plain))
    certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                connection, _peer = server.accept()
            except OSError:
                return
            try:
                context.wrap_socket(connection, server_side=True).close()
            except OSError:
                connection.close()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield server.getsockname()[1], certificate
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


def test_a_certificate_that_ran_out_tells_when(tmp_path, monkeypatch):
    with tls(tmp_path, 2021) as (port, certificate):
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        monkeypatch.setattr(reach, "TLS_PORTS", (port,))
        first = found("network", address=f"localhost:{port}")["network-certificate"]
    assert "2021-01-01" in first.cause + " ".join(first.evidence)


def test_a_certificate_that_nobody_vouches_for_is_told(tmp_path, monkeypatch):
    with tls(tmp_path, 2049) as (port, certificate):
        monkeypatch.setattr(reach, "TLS_PORTS", (port,))
        assert reach.server("localhost", port).certificate.problem
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert reach.server("localhost", port).certificate is None
