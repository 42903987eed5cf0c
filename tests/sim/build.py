"""Build the simulated libnvidia-ml.so.1 and libcuda.so.1 with the C compiler; takes about a second."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SOURCES = {
    "libnvidia-ml.so.1": ["nvml_system.c", "nvml_state.c", "nvml_health.c", "nvml_mig.c", "reading.c", "settings.c"],
    "libcuda.so.1": ["cuda.c", "settings.c"],
}
FLAGS = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-fvisibility=hidden"]


def build(directory: Path) -> Path:
    """Build both libraries into the directory and return it; LD_LIBRARY_PATH=directory makes programs load them.

    Raises subprocess.CalledProcessError where the compiler objects.
    """
    here = Path(__file__).parent
    directory.mkdir(parents=True, exist_ok=True)
    for library, sources in SOURCES.items():
        files = [str(here / source) for source in sources]
        output = ["-Wl,-soname," + library, "-o", str(directory / library)]
        subprocess.run(["gcc", *FLAGS, *files, *output], check=True)
    return directory


if __name__ == "__main__":
    build(Path(sys.argv[1]))
