"""The report as headless Chromium shows it, on a desk and on a phone."""

import json
import re
import shutil
import subprocess

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.report import document
from ansible_collections.gpulab.node.plugins.plugin_utils.report.html import html

from unit.report import runs

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")]
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--virtual-time-budget=2000",
)
# Appended to a copy of the page: looks at it as the browser laid it out, and leaves what it saw in the page.
LOOK = """<script>
const seen = selector => getComputedStyle(document.querySelector(selector)).display !== "none";
const box = selector => document.querySelector(selector).getBoundingClientRect();
const answer = {
  title: document.title,
  width: innerWidth,
  scrolls: document.documentElement.scrollWidth,
  scripts: document.scripts.length,
  banner: document.querySelector(".banner")?.getBoundingClientRect().height ?? 0,
  findings: document.querySelectorAll(".finding").length,
  cell: box(".matrix tbody td").height,
  fail: seen(".finding.fail"),
};
document.querySelector("#show-fail").click();
answer.failAfterClick = seen(".finding.fail");
answer.warnAfterClick = seen(".finding.warn");
document.body.dataset.answer = JSON.stringify(answer);
</script>"""


def look(text, tmp_path, width):
    """Open the page in a window of this width and return what the browser made of it."""
    page = tmp_path / "report.html"
    page.write_text(text.replace("</body>", LOOK + "</body>"), encoding="utf-8")
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    argv = [CHROMIUM, *FLAGS, profile, f"--window-size={width},900", "--dump-dom", page.as_uri()]
    dom = subprocess.run(argv, capture_output=True, text=True, timeout=90, check=True).stdout
    return json.loads(re.search(r'data-answer="([^"]*)"', dom)[1].replace("&quot;", '"'))


def troubled():
    hosts = {
        "bad": runs.faulty("XID 79", "power budget exceeded"),
        "lab": runs.simulated(),
        "warm": runs.faulty("software thermal slowdown"),
        runs.HOSTILE: runs.hostile(),
        "away": runs.UNREACHABLE,
    }
    return html(document.build(hosts, runs.CREATED))


@pytest.mark.parametrize("width", [1400, 500])
def test_page_fits_its_window_and_its_filter_works(tmp_path, width):
    seen = look(troubled(), tmp_path, width)
    assert seen["title"].startswith("gpulab: fail")
    assert seen["scripts"] == 1  # the test's own
    assert seen["scrolls"] <= seen["width"] == width
    assert seen["banner"] > 0
    assert seen["findings"] >= 3
    assert seen["cell"] > 10
    assert (seen["fail"], seen["failAfterClick"], seen["warnAfterClick"]) == (True, False, True)


def test_page_can_be_printed(tmp_path):
    page, printed = tmp_path / "report.html", tmp_path / "report.pdf"
    page.write_text(troubled(), encoding="utf-8")
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    argv = [CHROMIUM, *FLAGS, profile, f"--print-to-pdf={printed}", page.as_uri()]
    subprocess.run(argv, capture_output=True, timeout=90, check=True)
    sizes = re.findall(rb"/MediaBox ?\[0 0 ([\d.]+) ([\d.]+)\]", printed.read_bytes())
    assert sizes
    assert all(float(width) > float(height) for width, height in sizes)
