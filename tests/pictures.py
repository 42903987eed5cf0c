"""Make README's picture: what the pages of a plan and of a proof show of a stand-in fleet, nodes that are made up.

The picture notes the structure of the pages that it was taken of: `make docs` takes it again where that is another one.
That of a hub is taken by molecule/jupyter, of a person at a real one, and notes what it was taken of, too.
"""

from __future__ import annotations

import hashlib
import html
import re
import struct
import sys
import tempfile
import zlib
from html.parser import HTMLParser
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import conftest  # noqa: F401  it makes this checkout importable as a collection
from ansible_collections.gpulab.node.plugins.plugin_utils.preview import document as previews
from ansible_collections.gpulab.node.plugins.plugin_utils.preview.page import page as plan_page
from ansible_collections.gpulab.node.plugins.plugin_utils.report import document as reports
from ansible_collections.gpulab.node.plugins.plugin_utils.report.html import html as report_page
from unit.pages import chromium
from unit.preview import hosts
from unit.report import runs

PICTURE = Path(__file__).parents[1] / "docs/images/plan-and-report.png"
HUB = PICTURE.with_name("jupyter.png")
WIDTH, HEIGHT, EACH = 1160, 1320, 600
# What the pages draw first is drawn again once their sections have been measured.
SETTLED = "new Promise(done => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 1000))"
NOTE = b"gpulab-structure"
SAID = {"h1", "h2", "h3", "th", "dt"}  # elements whose texts belong to a page's structure
FRAME = """<!doctype html><meta charset="utf-8"><style>
body { margin: 0; padding: 16px 20px; background: #fff; font: 15px/1.5 "DejaVu Sans", sans-serif; color: #1b2028; }
iframe { border: 1px solid #c3c9d2; border-radius: 10px; width: 100%; height: HEIGHTpx; }
p { margin: 4px 2px 6px; }
</style><p>A stand-in fleet of six made-up nodes: <b>reports/plan.html</b>, before the run</p>
<iframe srcdoc="%s"></iframe>
<p><b>reports/latest/report.html</b>, after it</p><iframe srcdoc="%s"></iframe>"""


def pages() -> tuple[str, str]:
    """Return the plan and the report of the stand-in fleet."""
    before = {f"train0{at}": hosts.virgin() for at in (1, 2, 3)}
    before |= {"desk01": hosts.upgradable(), "desk02": hosts.busy(hosts.upgradable()), "desk03": hosts.provisioned()}
    after = {f"train0{at}": runs.judged(runs.nodes.healthy("h100x8")) for at in (1, 2)}
    after |= {"train03": runs.faulty("two NVLinks down"), "desk01": runs.judged(runs.nodes.healthy("rtx4090x2"))}
    after |= {
        "desk02": runs.faulty("software thermal slowdown"),
        "desk03": runs.judged(runs.nodes.healthy("rtx4090x2")),
    }
    report = reports.build(after, runs.CREATED)
    report["gpulab"] = "of this checkout"
    return plan_page(previews.build(before, hosts.CREATED)), report_page(report)


class _Structure(HTMLParser):
    """The elements of a page with their classes, and what its headings say."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag
        self.parts.append(f"{tag}.{dict(attrs).get('class', '')}")

    def handle_data(self, data: str) -> None:
        if self._inside in SAID and data.strip():
            self.parts.append(data.strip())


def structure(*texts: str) -> str:
    """Return what tells pages of one structure from pages of another."""
    parser = _Structure()
    for text in texts:
        parser.feed(text)
    return hashlib.sha256("\n".join(parser.parts).encode()).hexdigest()


def of_hub() -> str:
    """Return what tells a hub's pages from those of another form, or of another version."""
    files = Path(__file__).parents[1] / "roles/jupyter/files"
    form = (files / "jupyterhub_config.py").read_text(encoding="utf-8").partition("def form(")[2]
    versions = re.findall(r"^jupyter(?:hub|lab)==\S+", (files / "hub.txt").read_text(encoding="utf-8"), re.MULTILINE)
    return hashlib.sha256("\n".join([form.partition("c = get_config()")[0], *versions]).encode()).hexdigest()


def noted(picture: bytes) -> str | None:
    """Return the structure that a picture notes, None where it notes none."""
    place = 8
    while place < len(picture):
        (length,) = struct.unpack(">I", picture[place : place + 4])
        kind, data = picture[place + 4 : place + 8], picture[place + 8 : place + 8 + length]
        if kind == b"tEXt" and data.startswith(NOTE + b"\0"):
            return data.partition(b"\0")[2].decode()
        place += length + 12
    return None


def with_note(picture: bytes, note: str) -> bytes:
    """Return a PNG with this note behind its header."""
    chunk = b"tEXt" + NOTE + b"\0" + note.encode()
    begin = 8 + 12 + 13  # signature and header
    whole = struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return picture[:begin] + whole + picture[begin:]


def take() -> bytes:
    """Return the picture as Chromium takes it now."""
    texts = pages()
    with tempfile.TemporaryDirectory() as directory:
        page = Path(directory) / "picture.html"
        page.write_text(
            FRAME.replace("HEIGHT", str(EACH)).replace("100%;", "100%%;") % tuple(map(html.escape, texts)),
            encoding="utf-8",
        )
        browser = chromium.Browser(Path(directory) / "profile")
        try:
            browser.open(page, width=WIDTH)
            browser.look(SETTLED)
            picture = browser.picture(clip={"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT, "scale": 1})
        finally:
            browser.close()
    return with_note(picture, structure(*texts))


def refresh() -> None:
    """Take the picture again where the pages have another structure; without Chromium, say so."""
    if PICTURE.is_file() and noted(PICTURE.read_bytes()) == structure(*pages()):
        return
    if chromium.PROGRAM:
        PICTURE.write_bytes(take())
    else:
        print(f"{PICTURE}: the pages have another structure; install Chromium and run this again", file=sys.stderr)


if __name__ == "__main__":
    refresh()
