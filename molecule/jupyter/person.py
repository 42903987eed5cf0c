"""A person at the hub, by HTTP: this runs on a node with the hub's own Python, and prints what came of it as JSON.

person.py URL '{"name": ..., "password": ..., "token": ..., "do": ..., ...}'
"""

import asyncio
import json
import sys
import time
import uuid

import requests
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

AUTHORITY = "/etc/gpulab-jupyter/certificate.pem"
SECONDS = 90


class Person:
    """Somebody with a name, and a password or a token."""

    def __init__(self, url, name, password=None, token=None):
        """Remember them."""
        self.url, self.name, self.typed, self.password = url, name.lower(), name, password
        self.session = requests.Session()
        self.session.verify = AUTHORITY
        self.token = token

    def ask(self, method, path, **options):
        """Ask hub or server by the token."""
        return self.session.request(
            method, self.url + path, headers={"Authorization": f"token {self.token}"}, timeout=SECONDS, **options
        )

    def enter(self):
        """Log in by the form; return the cookies."""
        self.session.get(f"{self.url}/hub/login", timeout=SECONDS)
        proof = self.session.cookies.get("_xsrf", path="/hub/")
        form = {"username": self.typed, "password": self.password, "_xsrf": proof}
        self.session.post(f"{self.url}/hub/login", data=form, allow_redirects=False, timeout=SECONDS)
        return [{"name": cookie.name, "value": cookie.value, "path": cookie.path} for cookie in self.session.cookies]

    def home(self, cookies):
        """Return the status of what the hub shows to somebody with cookies."""
        for cookie in cookies:
            self.session.cookies.set(**cookie)
        return self.session.get(f"{self.url}/hub/home", allow_redirects=False, timeout=SECONDS).status_code

    def login(self):
        """Log in by the form; return a token of one's own, or None."""
        self.enter()
        proof = self.session.cookies.get("_xsrf", path="/hub/")
        made = self.session.post(
            f"{self.url}/hub/api/users/{self.name}/tokens",
            json={"note": "test"}, headers={"X-XSRFToken": proof or ""}, params={"_xsrf": proof}, timeout=SECONDS,
        )  # fmt: skip
        return made.json().get("token") if made.ok else None

    def spawn(self, **options):
        """Start the server with options; return its status, and whether it came up."""
        asked = self.ask("POST", f"/hub/api/users/{self.name}/server", json=options)
        end = time.monotonic() + SECONDS
        while asked.ok and not self.ready() and time.monotonic() < end:
            time.sleep(1)
        return {"status": asked.status_code, "ready": self.ready(), "said": asked.text}

    def ready(self):
        """Tell whether the server is there."""
        shown = self.ask("GET", f"/hub/api/users/{self.name}").json()
        return bool(shown.get("servers", {}).get("", {}).get("ready"))

    def stop(self):
        """End the server."""
        return self.ask("DELETE", f"/hub/api/users/{self.name}/server").status_code

    def get(self, path):
        """Return the status of a page."""
        return self.ask("GET", path).status_code

    def post(self, path, body):
        """Return the status of what the hub answers to a body."""
        return self.ask("POST", path, json=body).status_code

    def specs(self):
        """Return the names of the kernels that are offered."""
        return sorted(self.ask("GET", f"/user/{self.name}/api/kernelspecs").json()["kernelspecs"])

    def kernel(self, kind):
        """Start a kernel; return its number."""
        return self.ask("POST", f"/user/{self.name}/api/kernels", json={"name": kind}).json()["id"]

    def kernels(self):
        """Return what each kernel does."""
        return [one["execution_state"] for one in self.ask("GET", f"/user/{self.name}/api/kernels").json()]

    def cell(self, kernel, code, *, wait=True):
        """Run a cell; return what it prints."""
        return asyncio.run(self._cell(kernel, code, wait))

    async def _cell(self, kernel, code, wait):
        address = f"{self.url.replace('https', 'wss')}/user/{self.name}/api/kernels/{kernel}/channels"
        headers = {"Authorization": f"token {self.token}"}
        socket = await websocket_connect(HTTPRequest(address, headers=headers, ca_certs=AUTHORITY))
        number = uuid.uuid4().hex
        header = {"msg_id": number, "msg_type": "execute_request", "username": "", "session": number, "version": "5.3"}
        content = {"code": code, "silent": False, "store_history": False, "allow_stdin": False, "stop_on_error": True}
        message = {"header": header, "parent_header": {}, "metadata": {}, "channel": "shell", "content": content}
        await socket.write_message(json.dumps({**message, "buffers": []}))
        printed = ""
        while wait:
            said = json.loads(await asyncio.wait_for(socket.read_message(), SECONDS))
            if said["parent_header"].get("msg_id") != number:
                continue
            printed += said["content"].get("text", "") + "".join(said["content"].get("traceback", []))
            if said["content"].get("execution_state") == "idle":
                break
        if not wait:
            await asyncio.sleep(2)
        socket.close()
        return printed


if __name__ == "__main__":
    given = json.loads(sys.argv[2])
    person = Person(sys.argv[1], *(given.pop(name, None) for name in ("name", "password", "token")))
    sys.stdout.write(json.dumps(getattr(person, given.pop("do"))(**given)))
