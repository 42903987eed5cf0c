"""What the story took, what a capture had left over, and what stayed after the removal, told at the end."""

from scenario import EPHEMERAL


def pytest_terminal_summary(terminalreporter):
    """Show what the story wrote down."""
    for name in ("minutes", "left_over.json", "stayed.json"):
        file = EPHEMERAL / name
        terminalreporter.write_line(f"{name}:\n{file.read_text() if file.exists() else ''}")
