"""What is asked of a directory, and what answers that mean nothing come to. A real one is in molecule/directory."""

import contextlib
import socket
import ssl
import threading

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.accounts import joining, ldap

GOOD = {
    "uris": ["ldaps://ldap.lab.example"], "base": "dc=lab", "groups": ["vision"], "bind_dn": "", "bind_password": "",
    "local_people": [],
}  # fmt: skip


@pytest.mark.parametrize(
    ("uri", "server"),
    [
        ("ldaps://ldap.lab.example", ("ldap.lab.example", 636)),
        ("ldaps://ldap.lab.example:6360/", ("ldap.lab.example", 6360)),
        ("ldaps://[2001:db8::1]", ("2001:db8::1", 636)),
        ("ldap://ldap.lab.example", None),
        ("https://ldap.lab.example", None),
        ("ldaps://", None),
        ("ldaps://ldap.lab.example:port", None),
        ("ldaps://reader:secret@ldap.lab.example", None),
        ("ldaps://ldap.lab.example/dc=lab", None),
        ("ldaps://a, ldap://b", None),
        ("ldaps://a\nldap_tls_reqcert = never", None),
    ],
)
def test_only_servers_of_ldaps_are_asked(uri, server):
    assert ldap.server(uri) == server
    assert bool(joining.problems(**{**GOOD, "uris": [uri]})) == (server is None)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("base", ""),
        ("base", "dc=lab\nenumerate = true"),
        ("groups", []),
        ("groups", ["vision, others"]),
        ("groups", [" "]),
        ("bind_dn", "cn=reader"),
        ("bind_password", "secret"),
        ("local_people", ["ada"]),
    ],
)
def test_what_cannot_be_meant_is_one_problem(setting, value):
    assert joining.problems(**GOOD) == []
    problems = joining.problems(**{**GOOD, setting: value})
    assert len(problems) == 1
    assert "secret" not in problems[0]


class Answering(ssl.SSLContext):
    """Stands in for TLS: the test's server answers in clear text."""

    def wrap_socket(self, sock, **_options):
        """Return the socket as it is."""
        return sock


def told(answer):
    """Return the problem with a server that says this and ends the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            connection, _address = listening.accept()
            with connection, contextlib.suppress(OSError):
                connection.sendall(answer)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 12):
                    pass

        threading.Thread(target=serve, daemon=True).start()
        uri = f"ldaps://127.0.0.1:{listening.getsockname()[1]}"
        return ldap.problem(uri, "dc=lab", "cn=reader", "secret", Answering(ssl.PROTOCOL_TLS_CLIENT))


def message(kind, code, number=1):
    """Return an answer in BER with this result code."""
    return bytes([0x30, 12, 2, 1, number, kind, 7, 10, 1, code, 4, 0, 4, 0])


BOUND = message(0x61, 0)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (BOUND + message(0x65, 0, 2), ""),
        (BOUND + bytes([0x30, 9, 2, 1, 2, 0x64, 4, 4, 0, 0x30, 0]) + message(0x65, 0, 2), ""),
        (message(0x61, 49), "it does not take the password of cn=reader"),
        (BOUND + message(0x65, 32, 2), "it has no entry dc=lab"),
        (BOUND + message(0x65, 53, 2), "it answers with LDAP's error 53"),
        (BOUND, "it ends the connection"),
        (b"", "it ends the connection"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "what answers does not speak LDAP"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "what answers does not speak LDAP"),
        (b"\x30\x84\x7f\xff\xff\xff", "what answers does not speak LDAP"),
        (b"\x30\x00", "what answers does not speak LDAP"),
        (b"\x30\x03\x02\x01\x01", "what answers does not speak LDAP"),
        (message(0x78, 0), "what answers does not speak LDAP"),
    ],
)
def test_each_answer_comes_to_a_sentence(answer, problem):
    assert told(answer) == problem
