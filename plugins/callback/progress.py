# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.progress: what a run does now, what it changed, and how it ended."""

from __future__ import annotations

DOCUMENTATION = r"""
name: progress
type: stdout
short_description: One live line per host, a clear recap, errors with cause and remedy
version_added: 0.1.0
author: The gpulab founders (@gpulab)
description:
  - On a terminal, one line per host that is at work lives at its foot, with the last line of the long step it runs
    (see M(gpulab.node.long_step)). Changes, failures, differences and messages scroll above.
  - Elsewhere, plain lines, at least one every 30 seconds for each host that is at work.
  - The recap has the durations, and for each host that failed the cause, the remedy and the code.
extends_documentation_fragment:
  - result_format_callback
options:
  display_ok_hosts:
    description: Whether to show tasks that changed nothing, too.
    type: bool
    default: false
    env:
      - name: ANSIBLE_DISPLAY_OK_HOSTS
    ini:
      - key: display_ok_hosts
        section: defaults
  display_skipped_hosts:
    description: Whether to show tasks that were skipped, too.
    type: bool
    default: false
    env:
      - name: ANSIBLE_DISPLAY_SKIPPED_HOSTS
    ini:
      - key: display_skipped_hosts
        section: defaults
  plain_interval:
    description: Seconds after which a host that is still at its task gets a line, where there is no terminal.
    type: float
    default: 30
    env:
      - name: GPULAB_PLAIN_INTERVAL
  show_custom_stats:
    description: Whether to show what C(set_stats) collected after the recap.
    type: bool
    default: false
    env:
      - name: ANSIBLE_SHOW_CUSTOM_STATS
    ini:
      - key: show_custom_stats
        section: defaults
requirements:
  - rich, for the live lines; without it, plain lines
"""

import atexit
import re
import shutil
import sys
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from ansible import constants as C  # noqa: N812 - its name in every plugin of Ansible
from ansible import context
from ansible.plugins.callback import CallbackBase
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import for_people, for_people_all
from ansible_collections.gpulab.node.plugins.plugin_utils.core.gpulab_version import need_ansible
from ansible_collections.gpulab.node.plugins.plugin_utils.preview.gathered import GATHERED
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.board import (
    Failure,
    RunBoard,
    counts,
    duration,
    short_task,
    verdict,
    wrapped,
)
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.channel import Receiver
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.explain import address_of, explain, message
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.live_region import HAS_RICH, LiveRegion

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

    from ansible.executor.stats import AggregateStats
    from ansible.executor.task_result import CallbackTaskResult
    from ansible.inventory.host import Host
    from ansible.playbook import Playbook
    from ansible.playbook.handler import Handler
    from ansible.playbook.play import Play
    from ansible.playbook.task import Task

REFRESH_SECONDS = 0.25
INDENT = " " * 6
PREVIEW = "gpulab.node.preview"
VERDICT_COLORS = {
    "ok": C.COLOR_OK,
    "changed": C.COLOR_CHANGED,
    "failed": C.COLOR_ERROR,
    "unreachable": C.COLOR_UNREACHABLE,
}
# Actions whose message is written for the operator.
SPEAKS_FOR_ITSELF = {"assert", "fail", "validate_argument_spec", "verify"}
# What does not help to see why a task failed.
NOISE = {"changed", "failed", "delta", "start", "end", "stderr_lines", "stdout_lines", "invocation"}


def _may_be_rescued(task: Task) -> bool:
    """Tell whether a block around a task has a rescue section, so that the recap may not show the failure."""
    parent = task._parent  # noqa: SLF001 - Ansible gives a callback no other way to it
    while parent is not None:
        if getattr(parent, "rescue", None):
            return True
        parent = getattr(parent, "_parent", None)
    return False


class CallbackModule(CallbackBase):
    """Show a run: events come from Ansible, lines of long steps from the channel, both meet on the board."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "gpulab.node.progress"

    def __init__(self) -> None:
        """Know no host yet; nothing is started before a playbook is."""
        need_ansible()
        super().__init__()
        self._board = RunBoard(time.monotonic())
        self._receiver: Receiver | None = None
        self._region: LiveRegion | None = None
        self._watcher: threading.Thread | None = None
        self._previewed = False  # a preview names each refusal with its cause and remedy

    def v2_playbook_on_start(self, playbook: Playbook) -> None:  # noqa: ARG002 - Ansible's signature
        """Open the channel, and the live lines on a terminal."""
        self._receiver = Receiver()
        if HAS_RICH and sys.stdout.isatty():
            self._region = LiveRegion(self._display)
        self._watcher = threading.Thread(target=self._watch, name="gpulab-progress", daemon=True)
        self._watcher.start()
        atexit.register(self._close)

    def v2_playbook_on_play_start(self, play: Play) -> None:
        """Name the play."""
        mode = "  (check mode: nothing is changed)" if play.check_mode else ""
        self._show("")
        self._show(f"PLAY {play.get_name().strip()}{mode}", C.COLOR_HIGHLIGHT)

    def v2_runner_on_start(self, host: Host, task: Task) -> None:
        """Put the host's task on the board."""
        self._board.start_task(host.get_name(), short_task(task.get_name()), time.monotonic())

    def v2_runner_on_ok(self, result: CallbackTaskResult) -> None:
        """Show a change, a message, or with -v any result."""
        seconds = self._board.end_task(result.host.get_name(), time.monotonic())
        plan = result.result.get("ansible_facts", {}).get("gpulab_plan")
        self._previewed = self._previewed or result.task.resolved_action == PREVIEW
        if plan:
            previews = result.task_fields.get("check_mode")  # which takes less time than the run did
            expected = {} if previews else result.result.get("expected", {})
            self._board.plan(result.host.get_name(), plan["due"], expected)
        if not (result.task.loop and "results" in result.result):  # its items have been shown
            self._show_success(result, seconds)

    def v2_runner_on_failed(self, result: CallbackTaskResult, ignore_errors: bool = False) -> None:  # noqa: FBT001, FBT002
        """Show a failure with its cause and remedy."""
        self._end_badly(result, "failed", ignored=ignore_errors)

    def v2_runner_on_unreachable(self, result: CallbackTaskResult) -> None:
        """Show why a host cannot be reached."""
        self._end_badly(result, "unreachable", ignored=bool(result.task.ignore_unreachable))

    def v2_runner_on_skipped(self, result: CallbackTaskResult) -> None:
        """Show a skipped task when asked to."""
        self._board.end_task(result.host.get_name(), time.monotonic())
        self._handle_warnings(result.result)
        if self.get_option("display_skipped_hosts"):
            self._show_line(result, "skipped", C.COLOR_SKIP)

    def v2_runner_item_on_ok(self, result: CallbackTaskResult) -> None:
        """Show a change or a message of one item of a loop."""
        self._show_success(result, None)

    def v2_runner_item_on_failed(self, result: CallbackTaskResult) -> None:
        """Show the failure of one item of a loop."""
        self._show_failure(result, "failed", ignored=bool(result.task.ignore_errors))

    def v2_runner_item_on_skipped(self, result: CallbackTaskResult) -> None:
        """Show a skipped item of a loop when asked to."""
        if self.get_option("display_skipped_hosts"):
            self._show_line(result, "skipped", C.COLOR_SKIP)

    def v2_runner_retry(self, result: CallbackTaskResult) -> None:
        """Say that a task is tried again."""
        left = result.result["retries"] - result.result["attempts"]
        self._show_line(result, f"not yet, {left} tries left", C.COLOR_DEBUG)

    def v2_on_file_diff(self, result: CallbackTaskResult) -> None:
        """Show what changes, for --diff."""
        results = result.result["results"] if result.task.loop and "results" in result.result else [result.result]
        for one in results:
            text = self._get_diff(for_people_all(one["diff"])) if one.get("diff") and one.get("changed") else ""
            if text:
                self._show(f"{self.host_label(result)}  {short_task(result.task.get_name())}")
                self._print(text.rstrip("\n") + "\n")  # it has colours by now

    def v2_playbook_on_no_hosts_matched(self) -> None:
        """Say that a play had no host."""
        self._show("no hosts matched", C.COLOR_SKIP)

    def v2_playbook_on_no_hosts_remaining(self) -> None:
        """Say that no host is left."""
        self._show("no hosts left", C.COLOR_ERROR)

    def v2_playbook_on_notify(self, handler: Handler, host: Host) -> None:
        """Say with -vv that a handler was notified."""
        if self._display.verbosity > 1:
            self._show(f"{host.get_name()}  notified: {short_task(handler.get_name())}", C.COLOR_VERBOSE)

    def v2_playbook_on_stats(self, stats: AggregateStats) -> None:
        """Show the recap."""
        self._close()
        hosts = sorted(stats.processed)
        head = [f"RECAP  total {duration(time.monotonic() - self._board.started)}"]
        if len(hosts) > 1:
            count = Counter(verdict(stats.summarize(host)) for host in hosts)
            results = ", ".join(f"{count[result]} {result}" for result in VERDICT_COLORS if count[result])
            head.append(f"{len(hosts)} hosts: {results}")
        if context.CLIARGS.get("check"):
            head.append("(check mode)")
        self._show("\n" + "  ".join(head), C.COLOR_HIGHLIGHT)
        width = max(map(len, hosts), default=0)
        for host in hosts:
            self._show_host(host, stats.summarize(host), width)
        if stats.custom and self.get_option("show_custom_stats"):
            self._show(f"CUSTOM STATS {self._dump_results(stats.custom, indent=1)}")
        self._show("")

    def _show_host(self, host: str, summary: dict[str, int], width: int) -> None:
        """Show one host in the recap, and what was wrong with it."""
        result = verdict(summary)
        word = "would change" if self._previewed and result == "changed" else result
        line = f"  {host:{width}}  {word:11}  {duration(self._board.seconds(host)):>6}  {counts(summary)}"
        self._show(line, VERDICT_COLORS[result])
        if result in {"failed", "unreachable"}:
            # A failure that is not rescued is the last of its host, but for those of always sections.
            for failure in self._board.failures(host)[summary["rescued"] :]:
                if self._previewed and failure.refusal:
                    self._show(f"    {failure.task}: GPULAB-{failure.refusal.code}, see the preview", C.COLOR_ERROR)
                    continue
                self._show(f"    {failure.task}")
                self._show_cause(failure)

    def _show_success(self, result: CallbackTaskResult, seconds: float | None) -> None:
        """Show a task or item that did not fail; one that changed nothing only when it has something to say."""
        self._handle_warnings(result.result)
        changed = bool(result.result.get("changed"))
        says = self._run_is_verbose(result)
        if changed or says or self.get_option("display_ok_hosts"):
            word, color = ("changed", C.COLOR_CHANGED) if changed else ("ok", C.COLOR_OK)
            self._show_line(result, word, color, seconds)
        if says:
            self._clean_results(result.result, result.task.action)
            said = result.result.get("msg")
            lines = [said] if isinstance(said, str) else said if isinstance(said, list) else []
            only_text = lines and all(isinstance(line, str) for line in lines) and self._display.verbosity == 0
            self._show_indented("\n".join(lines) if only_text else self._dump_results(result.result))

    def _end_badly(self, result: CallbackTaskResult, word: str, *, ignored: bool) -> None:
        """Show a failure, and keep it for the recap unless it is ignored."""
        host = result.host.get_name()
        self._board.end_task(host, time.monotonic())
        in_recap = not ignored and self._display.verbosity == 0 and not _may_be_rescued(result.task)
        failure = self._show_failure(result, word, ignored=ignored, in_recap=in_recap)
        if not ignored:
            self._board.fail(host, failure)

    def _show_failure(self, result: CallbackTaskResult, word: str, *, ignored: bool, in_recap: bool = False) -> Failure:
        """Show a failure: cause and remedy where they are known, else all that is known.

        For a failure that is in_recap, only the codes are shown: cause and remedy follow in the recap, or in a preview.
        """
        of_loop = result.task.loop and "results" in result.result
        name = result.host.get_name()
        address = address_of(name, result.host.get_vars())
        refusal = explain(result.result, name, unreachable=word == "unreachable", address=address)
        failure = Failure(self._task_label(result), refusal, message(result.result))
        self._handle_warnings(result.result)
        if ignored and self._display.verbosity == 0:
            self._show_line(result, f"{word}, ignored", C.COLOR_WARN)
            return failure
        codes = (
            "  ".join(dict.fromkeys(re.findall(r"^GPULAB-\w+", failure.text, re.MULTILINE)))
            if in_recap or GATHERED.is_open
            else ""
        )
        self._show_line(result, f"{word}  {codes}" if codes else word, VERDICT_COLORS[word])
        if of_loop or codes:
            return failure
        speaks = result.task.action.rpartition(".")[2] in SPEAKS_FOR_ITSELF or failure.message.startswith("GPULAB-")
        if refusal is None and not speaks:
            self._handle_exception(result.result)
            self._show_indented(self._dump_results(self._essence(result.result)))
        else:
            self._show_cause(failure)
            self._show(f"      at {result.task.get_path()}")
        return failure

    def _essence(self, result: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what says why a task failed; with -v, everything."""
        if self._display.verbosity > 0:
            return result
        return {key: value for key, value in result.items() if value not in ("", [], None) and key not in NOISE}

    def _show_cause(self, failure: Failure) -> None:
        """Show a failure's cause and remedy."""
        if failure.refusal:
            self._show_indented(f"GPULAB-{failure.refusal.code}  {failure.refusal.cause}", C.COLOR_ERROR)
            self._show_indented(f"Remedy: {failure.refusal.remedy}")
        else:
            self._show_indented(failure.message)

    def _show_line(self, result: CallbackTaskResult, word: str, color: str, seconds: float | None = None) -> None:
        """Show what became of a task or item on a host, in one line."""
        took = f"  {duration(seconds)}" if seconds is not None else ""
        self._show(f"{self.host_label(result)}  {word}  {self._task_label(result)}{took}", color)

    def _task_label(self, result: CallbackTaskResult) -> str:
        """Return a task's name, with the item of a loop."""
        label = self._get_item_label(result.result)
        return short_task(result.task.get_name()) + (f"  (item={label})" if label is not None else "")

    def _show_indented(self, text: str, color: str | None = None) -> None:
        """Show a message below the line it belongs to."""
        for line in text.strip("\n").splitlines():
            self._show(INDENT + line, color)

    def _show(self, text: str, color: str | None = None) -> None:
        """Print a text without passwords, and without control codes from a node that the terminal would obey."""
        lines = for_people(text).split("\n")
        if sys.stdout.isatty():
            columns = shutil.get_terminal_size().columns
            lines = [line for long in lines for line in wrapped(long, columns)]
        self._print("\n".join(lines), color)

    def _handle_warnings(self, res: MutableMapping[str, Any]) -> None:
        """Show warnings, which may be a node's own words."""
        for warning in res.pop("warnings", None) or ():
            self._display.warning(for_people(str(warning)))
        super()._handle_warnings(res)

    def _print(self, text: str, color: str | None = None) -> None:
        """Print now: whoever reads a pipe follows the run, too."""
        self._display.display(text, color=color)
        sys.stdout.flush()

    def _watch(self) -> None:
        """Note what long steps say, and keep the picture of the run alive, until the channel is closed."""
        while True:
            try:
                progress = self._receiver.receive(REFRESH_SECONDS) if self._receiver else None
            except OSError:
                return
            if progress:
                self._board.note(progress)
            self._refresh(time.monotonic())

    def _refresh(self, now: float) -> None:
        """Draw the live lines; without a terminal, say something of each host now and then."""
        if self._region:
            self._region.draw(self._board.rows(now), self._board.at_rest(), now - self._board.started)
            return
        for row in self._board.overdue(now, self.get_option("plain_interval")):
            self._show(f"{row.host}  {duration(row.seconds)}  {row.task}{f': {row.line}' if row.line else ''}")

    def _close(self) -> None:
        """End the live lines and the channel; what is printed from now on is final."""
        if self._receiver:
            self._receiver.close()
            self._receiver = None
        if self._watcher:
            self._watcher.join(timeout=2)
            self._watcher = None
        if self._region:
            self._region.close()
            self._region = None
