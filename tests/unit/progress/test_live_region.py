"""The lines at the foot of the terminal, drawn on a terminal that is played."""

import contextlib
import io
import sys
import threading

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.board import Row
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.live_region import LiveRegion, render
from hypothesis import given, settings
from hypothesis import strategies as st

from .terminal import Terminal

ROWS = [Row("node1", "nvidia_driver : Install the driver", 102.0, "Setting up gcc"), Row("node2", "Wait", 3.0, "")]


class Display:
    """Ansible's Display, as far as the region uses it."""

    def display(self, text, screen_only=False):  # noqa: FBT002 - Ansible's signature
        """Print a line."""
        assert screen_only
        sys.stdout.write(text + "\n")


@contextlib.contextmanager
def terminal():
    """Put a region on a terminal of its own; pytest puts streams of its own in place before each test."""
    output = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", output)
        patch.setattr(sys, "stderr", output)
        region = LiveRegion(Display())
        yield region, output
        region.close()


def screen(output):
    return [line.rstrip() for line in Terminal().feed(output.getvalue()).lines]


def test_a_region_names_hosts_tasks_times_and_lines():
    with terminal() as (region, output):
        region.draw(ROWS, (1, 2), 125.0)
        first, second, foot, _cursor = screen(output)
        assert first.split() == [
            "node1",
            "1m42s",
            *["nvidia_driver", ":", "Install", "the", "driver", "Setting", "up", "gcc"],
        ]
        assert second.split() == ["node2", "3.0s", "Wait"]
        assert foot == "1 waiting, 2 failed, total 2m05s"


def test_it_is_redrawn_in_place():
    with terminal() as (region, output):
        region.draw(ROWS, (0, 0), 1.0)
        region.draw(ROWS[:1], (1, 0), 2.0)
        assert screen(output)[1:] == ["1 waiting, total 2.0s", ""]


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_others_print_above_it(stream):
    with terminal() as (region, output):
        region.draw(ROWS, (0, 0), 1.0)
        getattr(sys, stream).write("changed\n")
        region.draw(ROWS[:1], (0, 0), 2.0)
        lines = screen(output)
        assert lines[0] == "changed"
        assert lines[2:] == ["total 2.0s", ""]


def test_a_prompt_is_not_drawn_over():
    with terminal() as (region, output):
        region.draw(ROWS, (0, 0), 1.0)
        sys.stdout.write("Password: ")
        region.draw(ROWS, (0, 0), 2.0)
        assert screen(output) == ["Password:"]
        sys.stdout.write("\n")
        region.draw(ROWS[:1], (0, 0), 3.0)
        assert len(screen(output)) == 4


def test_it_leaves_nothing_behind():
    with terminal() as (region, output):
        assert sys.stdout is not output
        region.draw(ROWS, (0, 0), 1.0)
        region.close()
        assert screen(output) == [""]
        assert sys.stdout is output


def test_threads_do_not_mistake_each_others_text():
    with terminal() as (region, output):
        region.draw(ROWS, (0, 0), 1.0)
        thread = threading.Thread(target=lambda: sys.stdout.write("from a thread\n"))
        thread.start()
        thread.join()
        assert screen(output) == ["from a thread", ""]


@settings(max_examples=50)
@given(
    width=st.integers(20, 200),
    height=st.integers(1, 50),
    hosts=st.lists(st.tuples(st.text(max_size=60), st.text(max_size=300)), max_size=60),
)
def test_no_line_is_wider_than_the_terminal_and_no_region_higher(width, height, hosts):
    from rich.cells import cell_len  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    rows = [Row(host or "x", "task", 1.0, line) for host, line in hosts]
    lines = render(rows, (1, 1), 1.0, width, height)
    assert len(lines) <= max(3, height)
    assert all(cell_len(Text.from_ansi(line).plain) < width for line in lines)


def test_hosts_that_do_not_fit_are_counted():
    lines = render(ROWS * 20, (0, 0), 1.0, 80, 10)
    assert "33 more at work" in lines[-1]
