"""A person at the hub by a browser on this machine, which trusts the hub's certificate and no other."""

import base64
import hashlib
import json
import sys
import time
from contextlib import suppress

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from scenario import PROJECT

sys.path.insert(0, str(PROJECT / "tests"))
import pictures
from unit.pages.chromium import Browser

SHIFT, CONTROL = 8, 2
SECONDS = 60
READY = "document.querySelector('.jp-Notebook') && !document.querySelector('.jp-Spinner, .jp-Dialog')"
PRINTED = f"{READY} && document.querySelector('.jp-Notebook .jp-OutputArea-output')"


def flags(certificate, name, address):
    """Return what lets Chromium reach a name at an address, by a certificate (PEM) that no authority signed."""
    key = x509.load_pem_x509_certificate(certificate.encode()).public_key()
    public = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    digest = base64.b64encode(hashlib.sha256(public).digest()).decode()
    return (
        "--no-proxy-server",
        f"--host-resolver-rules=MAP {name} {address}",
        f"--ignore-certificate-errors-spki-list={digest}",
    )


class Window(Browser):
    """A browser whose pages change by themselves."""

    def until(self, script, seconds=SECONDS):
        """Wait until an expression is true; a page that is being loaded has no answer."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with suppress(AssertionError):
                if self.look(f"!!({script})"):
                    return
            time.sleep(0.2)
        raise TimeoutError(script, self.look("location.href + document.body.innerText"))

    def until_loaded(self, script):
        """Wait until an expression is true; load the page again where a request was lost or came too early."""
        for _try in range(3):
            with suppress(TimeoutError):
                return self.until(script, SECONDS / 2)
            self.look("location.reload()")
        return self.until(script)

    def visit(self, address):
        """Open a page of the hub's or of a server's."""
        self.ask("Emulation.setDeviceMetricsOverride", width=1280, height=800, deviceScaleFactor=1, mobile=False)
        self.ask("Page.navigate", url=address)

    def login(self, name, password):
        """Log in, and see what there is to choose."""
        self.until("document.querySelector('#password_input')")
        values = f"type('username_input', {json.dumps(name)}), type('password_input', {json.dumps(password)})"
        self.look(f"({values}, document.getElementById('login_submit').click())")
        self.until("document.querySelector('#spawn_form')")

    def choose(self, **choices):
        """Start a server, and wait until JupyterLab is there."""
        self.until("document.querySelector('#spawn_form')")
        values = "".join(f"choose({json.dumps(name)}, {json.dumps(value)}), " for name, value in choices.items())
        self.look(f"({values}document.getElementById('spawn_form').requestSubmit())")
        self.until("document.querySelector('#jp-top-panel')")

    def notebook(self):
        """Begin a notebook in the kernel that the launcher offers first; return that kernel's name."""
        card = "document.querySelector('.jp-LauncherCard[data-category=Notebook]')"
        self.until(f"{card} && !document.querySelector('#jupyterlab-splash')")
        kernel = self.look(f"{card}.querySelector('.jp-LauncherCard-label').innerText.trim()")
        self.look(f"{card}.click()")
        runs = f"{READY} && document.body.innerText.includes({json.dumps(kernel + ' | Idle')})"
        self.until_loaded(runs)
        return kernel

    def cell(self, code):
        """Run the first cell; return what it prints. While JupyterLab draws the notebook, it loses what is typed."""
        editor = "document.querySelector('.jp-Notebook .cm-content')"
        while not self.look(f"{editor}.innerText.includes({json.dumps(code)})"):
            self.look(f"{editor}.focus()")
            self.ask("Input.insertText", text=code)
            time.sleep(1)
        self.press("Enter", modifiers=SHIFT)
        return self.printed()

    def save(self):
        """Save the notebook by its name, which JupyterLab asks for."""
        self.press("s", modifiers=CONTROL)
        self.until("document.querySelector('.jp-Dialog')")
        self.press("Enter")
        self.until("!document.querySelector('.jp-Dialog, .jp-mod-dirty')")

    def keep(self, seen):
        """Write what was seen as the document's picture, one below the other."""
        images = "".join(f"<img src=data:image/png;base64,{base64.b64encode(each).decode()}>" for each in seen)
        self.visit(f"data:text/html,<body style=margin:0><div style=font-size:0>{images}</div>")
        self.until("every('img').length && every('img').every(each => each.complete)")
        pictures.HUB.write_bytes(pictures.with_note(self.picture(whole=True), pictures.of_hub()))

    def top(self):
        """Return a picture of what is at the top of the page."""
        return self.picture(clip={"x": 0, "y": 0, "width": 1280, "height": 350, "scale": 1})

    def printed(self):
        """Return what the notebook shows as printed."""
        self.until(PRINTED)
        return self.look("document.querySelector('.jp-Notebook .jp-OutputArea-output').innerText")
