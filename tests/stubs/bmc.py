"""A stand-in for a good BMC: Redfish by HTTPS, with sessions, power that takes its time, logs and firmware.

No real BMC was ever asked by these tests. Faults are set one by one.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

if TYPE_CHECKING:
    from pathlib import Path

USER, PASSWORD, TOKEN = "gpulab", "Zephyr-quilt-41", "token-of-the-session"
SERIAL, OTHER = "GPU4711A", "GPU4712B"
V1 = "/redfish/v1"


def certificate(directory: Path, name: str = "bmc") -> tuple[Path, str]:
    """Write a new self-signed certificate with its key; return its file and its SHA-256."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.timezone.utc)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + dt.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ) + made.public_bytes(serialization.Encoding.PEM)
    file = directory / f"{name}.pem"
    file.write_bytes(pem)
    return file, hashlib.sha256(made.public_bytes(serialization.Encoding.DER)).hexdigest()


def link(path: str) -> dict[str, str]:
    """Return a link below /redfish/v1."""
    return {"@odata.id": f"{V1}/{path}"}


def members(*paths: str) -> dict[str, object]:
    """Return a collection."""
    return {"Members": [link(path) for path in paths], "Members@odata.count": len(paths)}


def entry(number: int, severity: str = "OK", message: str = "all well", created: str | None = None) -> dict[str, str]:
    """Return a record of a log."""
    created = created or f"2026-11-2{number % 10}T10:00:00Z"
    return {
        "@odata.id": f"{V1}/x/{number}",
        "Id": str(number),
        "Created": created,
        "Severity": severity,
        "Message": message,
    }


class Bmc:
    """The state of a machine behind a BMC, and a server for it.

    documents: resources by path, which a test may change. statuses: another status for a path. delay: seconds until a
    change of power shows. ignores: resets that are accepted and do nothing. asked: method, path and body of requests.
    switch: what a change of power does, too. not_taken: names that no change may have, states_not_taken:
    states of the boot. once_becomes: what becomes of Once. tag: the ETag that a change has to come with.
    """

    def __init__(self, directory: Path) -> None:
        """Serve on a free port of this machine; the certificate is written to the directory."""
        self.delay, self.ignores, self.boot_returns = 0.0, set(), True
        self.statuses: dict[str, int] = {}
        self.asked: list[tuple[str, str, object]] = []
        self.has_sessions, self.sessions = True, set()
        self.clock = 0.0
        self._power, self._then, self._at = "On", None, 0.0
        self.bodies: dict[str, bytes] = {}
        self.redirects: dict[str, str] = {}
        self.drip = False
        self.not_taken: set[str] = set()
        self.states_not_taken: set[str] = set()
        self.after_boot_not_taken: set[str] = set()
        self.once_becomes, self.tag = "Once", ""
        self.switch = lambda _kind: None
        self.documents = self._documents()
        file, self.fingerprint = certificate(directory)
        bmc = self

        class Handler(_Handler):
            of = bmc

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        """End the server."""
        self.server.shutdown()
        self.server.server_close()

    @property
    def power(self) -> str:
        """Return the power state now."""
        if self._then and time.monotonic() >= self._at:
            self._power, self._then = self._then, None
        return self._power

    @power.setter
    def power(self, state: str) -> None:
        self._power, self._then = state, None

    def reset(self, kind: str) -> int:
        """Do what ComputerSystem.Reset is asked; return the status."""
        allowed = self.documents["Systems/1"]["Actions"]["#ComputerSystem.Reset"]["ResetType@Redfish.AllowableValues"]
        if kind not in allowed:
            return 400
        if kind not in self.ignores:
            self.switch(kind)
            self._power = self.power
            self._then, self._at = ("On" if kind == "On" else "Off"), time.monotonic() + self.delay
            boot = self.documents["Systems/1"]["Boot"]
            self.not_taken |= self.after_boot_not_taken if kind == "On" else set()
            if kind == "On" and boot["BootSourceOverrideEnabled"] == "Once" and self.boot_returns:
                boot["BootSourceOverrideEnabled"] = "Disabled"
        return 204

    def _documents(self) -> dict[str, dict]:
        system = {
            "Id": "1",
            "SerialNumber": SERIAL,
            "Manufacturer": "Stand-in",
            "Model": "Node 8",
            "PartNumber": "900-1",
            "UUID": "4c4c4544-0000-1000-8000-000000000001",
            "BiosVersion": "2.1.7",
            "Status": {"Health": "OK"},
            "Links": {"Chassis": [link("Chassis/1")], "ManagedBy": [link("Managers/1")]},
            "LogServices": link("Systems/1/LogServices"),
            "Actions": {
                "#ComputerSystem.Reset": {
                    "target": f"{V1}/Systems/1/Actions/ComputerSystem.Reset",
                    "ResetType@Redfish.AllowableValues": ["On", "ForceOff", "GracefulShutdown", "ForceRestart"],
                }
            },
            "Boot": {
                "BootSourceOverrideEnabled": "Disabled",
                "BootSourceOverrideTarget": "None",
                "BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe", "Cd", "Hdd"],
            },
        }
        return {
            "": {
                "RedfishVersion": "1.15.0",
                "Links": {"Sessions": link("SessionService/Sessions")},
                "Systems": link("Systems"),
                "Managers": link("Managers"),
                "UpdateService": link("UpdateService"),
            },
            "Systems": members("Systems/other", "Systems/1"),
            "Systems/other": {"Id": "other", "SerialNumber": OTHER, "PowerState": "On"},
            "Systems/1": system,
            "Chassis/1": {"Links": {"ComputerSystems": [link("Systems/1")]}},
            "Managers/1": {"FirmwareVersion": "1.4.2", "LogServices": link("Managers/1/LogServices")},
            "UpdateService": {"FirmwareInventory": link("UpdateService/FirmwareInventory")},
            "UpdateService/FirmwareInventory": members("UpdateService/FirmwareInventory/NIC"),
            "UpdateService/FirmwareInventory/NIC": {"Id": "NIC", "Name": "Network adapter", "Version": "28.39.1002"},
            "Systems/1/LogServices": members("Systems/1/LogServices/SEL"),
            "Systems/1/LogServices/SEL": {
                "Id": "SEL",
                "MaxNumberOfRecords": 100,
                "OverWritePolicy": "NeverOverWrites",
                "Entries": link("Systems/1/LogServices/SEL/Entries"),
            },
            "Systems/1/LogServices/SEL/Entries": {
                "Members": [entry(1), entry(2, "Critical", "Power supply 2 lost")],
                "Members@odata.count": 2,
            },
            "Managers/1/LogServices": members(),
        }


class _Handler(BaseHTTPRequestHandler):
    """Answers as the state says."""

    of: Bmc
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body in one packet

    def log_message(self, *_words: object) -> None:
        """Print nothing."""

    def _answer(self, status: int, document: object = None, headers: dict[str, str] | None = None) -> None:
        data = b"" if document is None else document if isinstance(document, bytes) else json.dumps(document).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        for at in range(len(data)) if self.of.drip else ():
            self.wfile.write(data[at : at + 1])
            self.wfile.flush()
            time.sleep(0.1)
        if not self.of.drip:
            self.wfile.write(data)

    def _work(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        path = self.path.partition("?")[0].removeprefix(V1).strip("/")
        self.of.asked.append((self.command, self.path, body))
        token, basic = self.headers.get("X-Auth-Token"), self.headers.get("Authorization")
        if path in self.of.redirects:
            self._answer(302, None, {"Location": self.of.redirects[path]})
        elif path in self.of.statuses:
            self._answer(self.of.statuses[path], {"error": {"message": f"no, {PASSWORD}"}})
        elif path == "SessionService/Sessions" and self.command == "POST":
            self._log_in(body)
        elif path and not (token in self.of.sessions or (basic and self._basic(basic))):
            self._answer(401, {})
        elif self.command == "DELETE":
            self.of.sessions.discard(token)
            self._answer(204)
        elif self.command == "POST" and path.endswith("Actions/ComputerSystem.Reset"):
            self._answer(self.of.reset(body["ResetType"]))
        elif self.command == "PATCH":
            self._change_boot(path, body["Boot"])
        elif path in self.of.bodies:
            self._answer(200, self.of.bodies[path])
        else:
            self._document(path)

    do_GET = do_POST = do_PATCH = do_DELETE = _work  # noqa: N815 - as http.server calls them

    def _basic(self, header: str) -> bool:
        return base64.b64decode(header.removeprefix("Basic ")).decode() == f"{USER}:{PASSWORD}"

    def _change_boot(self, path: str, boot: dict[str, str]) -> None:
        if self.of.tag and self.headers.get("If-Match") != self.of.tag:
            self._answer(428, {})
        elif self.of.not_taken & boot.keys() or boot["BootSourceOverrideEnabled"] in self.of.states_not_taken:
            self._answer(400, {})
        else:
            enabled = boot["BootSourceOverrideEnabled"]
            asked = {**boot, "BootSourceOverrideEnabled": self.of.once_becomes if enabled == "Once" else enabled}
            self.of.documents[path]["Boot"].update(asked)
            self._answer(200, {})

    def _log_in(self, body: dict[str, str]) -> None:
        if not self.of.has_sessions:
            self._answer(404, {})
        elif body != {"UserName": USER, "Password": PASSWORD}:
            self._answer(401, {})
        else:
            self.of.sessions.add(TOKEN)
            self._answer(201, {}, {"X-Auth-Token": TOKEN, "Location": f"{V1}/SessionService/Sessions/7"})

    def _document(self, path: str) -> None:
        document = self.of.documents.get(path)
        if document is None:
            self._answer(404, {})
            return
        if path == "Systems/1":
            document = {"PowerState": self.of.power, **document}
        if path == "Managers/1":
            now = dt.datetime.now(dt.timezone.utc) + dt.timedelta(seconds=self.of.clock)
            document = {"DateTime": now.isoformat(), **document}
        self._answer(200, document, {"ETag": self.of.tag} if self.of.tag else None)
