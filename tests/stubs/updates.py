#!/usr/bin/env python3
"""Make a repository of somebody else's, unsigned, with these packages: tests/stubs/updates.py DIRECTORY NAME=VERSION...

The packages are empty. The repository's Origin is Updates.
"""

from __future__ import annotations

import sys
from pathlib import Path

from deb import Package
from repository import write_packages, write_release


def main() -> None:
    """Write it."""
    root = Path(sys.argv[1])
    wanted = [argument.partition("=") for argument in sys.argv[2:]]
    index = write_packages(root, ".", [Package(name, version, {}) for name, _equals, version in wanted])
    write_release(root, {"Origin": "Updates", "Label": "Updates", "Architecture": "amd64"}, {"Packages": index}, None)


if __name__ == "__main__":
    main()
