"""Make virtual environments that are nothing but names, and print the options with which nothing is to do there."""

from __future__ import annotations

import json
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS)]
import conftest  # noqa: F401  it makes this checkout importable as a collection
from ansible_collections.gpulab.node.plugins.module_utils import venv

ENVIRONMENTS = 10
PACKAGES = 300


def main() -> None:
    """Make them in the directory that is named."""
    directory = Path(sys.argv[1])
    wanted = [venv.Wanted(f"lab{number}", "3.11", (f"package0=={number}.0",)) for number in range(ENVIRONMENTS)]
    for number, one in enumerate(wanted):
        build = directory / ".builds" / one.name / "1"
        names = [f"package{n}" for n in range(PACKAGES)]
        names += [f"package{n}-{number}.0.dist-info" for n in range(PACKAGES)]
        for name in names:
            (build / "lib/python3.11/site-packages" / name).mkdir(parents=True)
        (build / "bin").mkdir()
        (build / "bin/python").symlink_to(sys.executable)
        record = {"fingerprint": one.fingerprint, "names": names, "expected": one.expected()}
        (build / venv.RECORD).write_text(json.dumps(record))
        (directory / one.name).symlink_to(build)
    keys = ("name", "python", "requirements")
    options = [{key: getattr(one, key) for key in keys} for one in wanted]
    print(json.dumps({"directory": str(directory), "uv_version": "0", "uv_sha256": "0", "environments": options}))


if __name__ == "__main__":
    main()
