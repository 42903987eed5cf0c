"""Make environments that are nothing but names, and print the options with which nothing is to do there.

They are one and the same for both modules: virtual environments below the directory, and conda's below DIRECTORY/conda.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS)]
import conftest  # noqa: F401  it makes this checkout importable as a collection
from ansible_collections.gpulab.node.plugins.module_utils.environments import conda, conda_host, venv

ENVIRONMENTS = 10
PACKAGES = 300
NAMES = [f"lab{number}" for number in range(ENVIRONMENTS)]


def make(directory: Path, name: str) -> Path:
    """Lay out an environment with its packages and no record, and return its build."""
    build = directory / ".builds" / name / "1"
    for package in range(PACKAGES):
        for place in (f"package{package}", f"package{package}-1.0.dist-info"):
            (build / "lib/python3.11/site-packages" / place).mkdir(parents=True)
    (build / "bin").mkdir()
    (build / "bin/python").symlink_to(sys.executable)
    (directory / name).symlink_to(build.relative_to(directory))
    return build


def virtual(directory: Path) -> dict[str, object]:
    """Make virtual environments and return the options of venv_environments."""
    options = []
    for name in NAMES:
        wanted = venv.Wanted(name, "3.11", ("package0==1.0",))
        build = make(directory, name)
        names = sorted(path.name for path in (build / "lib/python3.11/site-packages").iterdir())
        record = {"fingerprint": wanted.fingerprint, "names": names, "expected": wanted.expected()}
        (build / venv.RECORD).write_text(json.dumps(record))
        options.append({key: getattr(wanted, key) for key in ("name", "python", "requirements")})
    return {"directory": str(directory), "uv_version": "0", "uv_sha256": "0", "environments": options}


def of_conda(directory: Path) -> dict[str, object]:
    """Make conda environments and return the options of conda_environments."""
    envs, options = directory / "envs", []
    for name in NAMES:
        wanted = conda.Wanted(name, ("package0=1.0",), ("conda-forge",))
        build = make(envs, name)
        (build / "conda-meta").mkdir()
        for package in range(PACKAGES):
            (build / f"conda-meta/package{package}-1.0-0.json").write_text("{}")
        names, sizes = conda_host.content(build)
        record = {"fingerprint": wanted.fingerprint, "names": names, "sizes": sizes, "expected": wanted.expected({})}
        (build / venv.RECORD).write_text(json.dumps(record))
        options.append({"name": name, "packages": wanted.packages})
    tool = b"no micromamba is asked"
    (directory / "bin").mkdir()
    (directory / "bin/micromamba").write_bytes(tool)
    (envs / ".micromamba").touch()
    digest = hashlib.sha256(tool).hexdigest()
    given = {"micromamba_url": "http://127.0.0.1:9", "micromamba_sha256": digest, "environments": options}
    return {"directory": str(directory), **given}


def main() -> None:
    """Make them in the directory that is named."""
    directory = Path(sys.argv[1])
    given = {"venv_environments": virtual(directory), "conda_environments": of_conda(directory / "conda")}
    print(json.dumps(given))


if __name__ == "__main__":
    main()
