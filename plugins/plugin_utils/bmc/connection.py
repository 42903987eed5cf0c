# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A connection to one BMC by Redfish (DMTF DSP0266): its certificate is pinned, and nobody else is asked.

A BMC is not trusted. Its answers are bounded in size and time, no redirect is followed, a link that leaves the BMC is
refused, and a text that repeats the password loses it. Proxies are not used: they would carry the password.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import re
import socket
import ssl
import time
from http.client import HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar
from urllib.parse import urlsplit

from ansible_collections.gpulab.node.plugins.module_utils.core.records import typed
from ansible_collections.gpulab.node.plugins.module_utils.core.secret_texts import HIDDEN
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import one_line
from ansible_collections.gpulab.node.plugins.plugin_utils.bmc.base import (
    MOST_BYTES,
    MOST_TEXT,
    USUAL,
    Address,
    Bmc,
    Limits,
    PartError,
    cut_after,
    refuse_long,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Self

Type = TypeVar("Type")
ROOT = "/redfish/v1/"
MOST_REQUESTS = 600
_PATH = re.compile(r"/redfish/v1(/[A-Za-z0-9._~!$&'()*+,;=:@%-]*)*(\?[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?")
_PORT = 443
_NOT_TAKEN, _FORBIDDEN = 401, 403
_NO_SESSIONS = (404, 405, 501)
_WANTS_TAG = (412, 428)  # a change without the ETag of what it changes is not taken


Link = TypedDict("Link", {"@odata.id": str})  # where a resource is


class _Links(TypedDict, total=False):
    Sessions: Link | None


class Root(TypedDict, total=False):
    """What a BMC says of itself to everybody."""

    RedfishVersion: str | None
    Links: _Links | None
    Systems: Link | None
    Managers: Link | None
    UpdateService: Link | None


class CertificateError(Exception):
    """The certificate is not the pinned one; the text is its SHA-256."""


class _Pinned(HTTPSConnection):
    """A connection that ends before the first request where the certificate is another."""

    def __init__(self, place: tuple[str, int], fingerprint: str, seconds: float) -> None:
        # Nobody signs a BMC's certificate, and its name is no proof: the pinned one is.
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        super().__init__(*place, timeout=seconds, context=context)
        self._context: ssl.SSLContext = context
        self._fingerprint = fingerprint

    def connect(self) -> None:
        raw = socket.create_connection((self.host, self.port), self.timeout)
        self.sock = self._context.wrap_socket(raw, server_hostname=self.host, do_handshake_on_connect=False)
        self.sock.do_handshake()  # which whoever holds this connection can cut
        shown = hashlib.sha256(self.sock.getpeercert(binary_form=True) or b"").hexdigest()
        if not hmac.compare_digest(shown, self._fingerprint):
            self.close()
            raise CertificateError(shown)


class Connection(Bmc):
    """A session with a BMC by Redfish, which is deleted when it is left."""

    def __init__(self, address: Address, limits: Limits = USUAL) -> None:
        """Take where the BMC is; nothing is asked yet."""
        super().__init__(address, limits)
        self._headers: dict[str, str] = {}
        self._session = ""
        self._requests = 0
        self._http: _Pinned | None = None
        self.root: Root = {}

    def __enter__(self) -> Self:
        """Connect and log in. Raises Refusal F100, F101, F102, F107, F108."""
        try:
            self.root = self._typed(self._ask("GET", ROOT)[2], Root)
            self._log_in()
        except PartError as error:
            self.__exit__()
            raise self.refusal("F107", detail=error) from error
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        """Log out."""
        if self._session:
            self._until = time.monotonic() + self._limits.request  # after a reading that took all its time, too
            self._requests = 0
            try:
                self._ask("DELETE", self._session)
            except Exception:  # noqa: BLE001 - what was read is worth more than the session
                self.left.append("the session could not be deleted; it ends by itself when the BMC says so")
            self._session = ""
        if self._http:
            self._http.close()

    def get(self, path: str, kind: type[Type]) -> Type:
        """Return a resource as its type has it. Raises PartError, Refusal."""
        return self._typed(self._ask("GET", path)[2], kind)

    def send(self, method: str, path: str, body: dict[str, Any]) -> None:
        """Send a change. Raises PartError where the BMC does not take it, Refusal."""
        try:
            self._ask(method, path, body)
        except _AnswerError as error:
            tag = self._ask("GET", path)[1].get("etag") if error.status in _WANTS_TAG else None
            if not tag:
                raise
            self._ask(method, path, body, {"If-Match": tag})

    def _typed(self, document: Any, kind: type[Type]) -> Type:
        try:
            return typed(document, kind)
        except ValueError as error:
            message = f"its form is wrong: {error}"
            raise PartError(message) from error

    def _log_in(self) -> None:
        """Take a token; ask with the name and the password each time where the BMC has no sessions."""
        user, password = self._address.user, self._address.password
        links = self.root.get("Links") or {}
        sessions = links.get("Sessions")
        if sessions:
            try:
                _status, headers, body = self._ask(
                    "POST", sessions["@odata.id"], {"UserName": user, "Password": password}
                )
            except _AnswerError as error:
                if error.status == _FORBIDDEN:
                    raise self.refusal("F102", user=user) from error
                if error.status not in _NO_SESSIONS:
                    raise
            else:
                if headers.get("x-auth-token"):
                    place = urlsplit(headers.get("location", "")).path
                    own = body.get("@odata.id") if isinstance(body, dict) else None
                    self._session = place or (own if isinstance(own, str) else "")
                    self._headers = {"X-Auth-Token": headers["x-auth-token"]}
                    return
        basic = base64.b64encode(f"{user}:{password}".encode()).decode("ascii")
        self._headers = {"Authorization": f"Basic {basic}"}

    def _ask(
        self, method: str, path: str, body: dict[str, Any] | None = None, further: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], Any]:
        """Return status, headers by small names, and the document. Raises PartError, Refusal."""
        if not _PATH.fullmatch(path) or ".." in path.partition("?")[0].split("/"):
            message = f"its link leaves the BMC: {one_line(path)[:MOST_TEXT]}"
            raise PartError(message)
        if self._requests >= MOST_REQUESTS or time.monotonic() > self._until:
            message = f"the BMC takes more than {self._limits.whole:.0f} s or {MOST_REQUESTS} requests"
            raise PartError(message)
        self._requests += 1
        sent = json.dumps(body).encode() if body is not None else None
        status, headers, data = self._exchange(method, path, sent, further or {})
        if status == _NOT_TAKEN:
            raise self.refusal("F102", user=self._address.user)
        if not 200 <= status < 300:  # noqa: PLR2004 - a redirect is no answer either
            raise _AnswerError(status)
        if not data.strip():
            return status, headers, {}
        try:
            return status, headers, self._cleaned_document(json.loads(data.decode("utf-8")))
        except (ValueError, RecursionError) as error:
            message = "it is no JSON"
            raise PartError(message) from error

    def _exchange(
        self, method: str, path: str, body: bytes | None, further: dict[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        """Send one request and read its answer whole. Raises PartError for one that is too long, Refusal."""
        headers = {"Accept": "application/json", "OData-Version": "4.0", **self._headers, **further}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if method != "GET":
            self._drop()  # on one that the BMC has ended meanwhile, nobody knows whether a change was asked
        fresh = self._http is None
        try:
            with self._at_most() as http:
                http.request(method, path, body, headers)
                answer = http.getresponse()
                data = answer.read(MOST_BYTES + 1)
                found = {name.lower(): value for name, value in answer.getheaders()}
        except CertificateError as error:
            self._drop()
            pinned = self._address.fingerprint
            code = "F101" if pinned else "F108"
            raise self.refusal(code, seen=error, pinned=pinned) from error
        except (OSError, HTTPException, ValueError) as error:
            self._drop()
            if not fresh and method == "GET" and not isinstance(error, TimeoutError):
                return self._exchange(method, path, body, further)  # a BMC may end a connection that it kept
            detail = one_line(str(error) or type(error).__name__)[:MOST_TEXT]
            raise self.refusal("F100", detail=self._cleaned(detail)) from error
        if len(data) > MOST_BYTES:
            self._drop()
            refuse_long(data)
        return answer.status, found, data

    @contextlib.contextmanager
    def _at_most(self) -> Iterator[_Pinned]:
        """Give a connection that is cut when a request takes too long, however slowly the BMC still sends."""
        if self._http is None:
            pinned = re.sub(r"[^0-9a-f]", "", self._address.fingerprint.lower())
            self._http = _Pinned(self._address.place(_PORT), pinned, self._limits.request)
        http = self._http

        def cut() -> None:
            if http.sock:
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(http.sock, socket.SHUT_RDWR)

        try:
            with cut_after(self._limits.request, cut) as late:
                yield http
        finally:
            if late.is_set():
                message = f"no whole answer within {self._limits.request:.0f} s"
                raise TimeoutError(message)

    def _drop(self) -> None:
        if self._http:
            self._http.close()
        self._http = None

    def _cleaned(self, text: str) -> str:
        token = self._headers.get("X-Auth-Token", "")
        text = super()._cleaned(text)
        return text.replace(token, HIDDEN) if token else text

    def _cleaned_document(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._cleaned(value)
        if isinstance(value, dict):
            return {self._cleaned_document(name): self._cleaned_document(one) for name, one in value.items()}
        return [self._cleaned_document(one) for one in value] if isinstance(value, list) else value


class _AnswerError(PartError):
    """The BMC answers with another status than success."""

    def __init__(self, status: int) -> None:
        super().__init__(f"it answers {status}")
        self.status = status
