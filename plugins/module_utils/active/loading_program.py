# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure how fast PyTorch loads data. This file is the program that a node's own Python interpreter runs.

    python loading_program.py DIRECTORY FILES WORKERS SECONDS

DIRECTORY is for files of its own, empty and removed by the caller, or "-". FILES names a text with a path a line,
which are only read. WORKERS are numbers with commas. It prints lines of JSON: {"source", "workers", "rate"} for each
source of samples, in samples a second, and {"eats"}, those that the first GPU it sees trains with. A sample is an image
of 224 x 224 pixels, without decoding. It needs nothing but PyTorch (and lmdb for that source), and knows nothing of
gpulab.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

SHAPE = (3, 224, 224)
SAMPLE = 3 * 224 * 224  # bytes
BATCH = 4  # small, so that batches of many workers fit in a container's 64 MiB of /dev/shm
TRAINED = 64  # images a step
WARM_UP_SECONDS = 1.0
LMDB_MAP = 10**12  # bytes that it may grow to: a sparse file
LMDB_SAMPLES = 256
ENDLESS = 1 << 40


class Memory:
    """Samples that are in memory already: what remains is the processors' work."""

    def __init__(self) -> None:
        """Make one."""
        self._data = os.urandom(SAMPLE)

    def read(self, _number: int) -> bytes:
        """Return a sample."""
        return self._data


class Files:
    """Samples from files, each opened and read past what the kernel holds of it."""

    def __init__(self, paths: list[str]) -> None:
        """Keep the paths."""
        self._paths = paths

    def read(self, number: int) -> bytes:
        """Return a sample; a large file has many."""
        descriptor = os.open(self._paths[number % len(self._paths)], os.O_RDONLY)
        try:
            room = max(1, os.fstat(descriptor).st_size - SAMPLE)
            place = number * 2654435761 % room  # spread over the file, the same each time
            os.posix_fadvise(descriptor, place, SAMPLE, os.POSIX_FADV_DONTNEED)
            return os.pread(descriptor, SAMPLE, place)
        finally:
            os.close(descriptor)


class Map:
    """Samples from one file that is mapped, as numpy.memmap does."""

    def __init__(self, path: str) -> None:
        """Map nothing yet: each worker does so for itself."""
        self._path = path
        self._map: mmap.mmap | None = None
        self._descriptor = -1

    def read(self, number: int) -> bytes:
        """Return a sample."""
        if self._map is None:
            self._descriptor = os.open(self._path, os.O_RDONLY)
            self._map = mmap.mmap(self._descriptor, 0, prot=mmap.PROT_READ)
        place = number * 2654435761 % max(1, len(self._map) - SAMPLE)
        os.posix_fadvise(self._descriptor, place, SAMPLE, os.POSIX_FADV_DONTNEED)
        return self._map[place : place + SAMPLE]


class Lmdb:
    """Samples from a database of this program's own, whose map may grow to 1 TB. The kernel holds it in memory."""

    def __init__(self, lmdb: Any, directory: str) -> None:
        """Write it. Raises lmdb.Error."""
        self._lmdb, self._directory = lmdb, directory
        self._environment: Any = None
        with lmdb.open(directory, map_size=LMDB_MAP) as written, written.begin(write=True) as transaction:
            for number in range(LMDB_SAMPLES):
                transaction.put(b"%d" % number, os.urandom(SAMPLE))

    def read(self, number: int) -> bytes:
        """Return a sample."""
        if self._environment is None:
            self._environment = self._lmdb.open(self._directory, readonly=True, lock=False, readahead=False)
        with self._environment.begin() as transaction:
            return bytes(transaction.get(b"%d" % (number % LMDB_SAMPLES)))


class Samples:
    """What a DataLoader takes: an image by its number, as floats."""

    def __init__(self, torch: Any, source: Any) -> None:
        """Take them from a source."""
        self._torch, self._source = torch, source

    def __len__(self) -> int:
        """Return more than anybody loads."""
        return ENDLESS

    def __getitem__(self, number: int) -> Any:
        """Return an image."""
        data = bytearray(SAMPLE)
        read = self._source.read(number)
        data[: len(read)] = read
        image = self._torch.frombuffer(data, dtype=self._torch.uint8).view(SHAPE)
        return image.float().div_(255).sub_(0.45).div_(0.225).flip(2)


def rate(torch: Any, source: Any, workers: int, seconds: float) -> float:
    """Return how many samples a second a DataLoader gives, after each worker has given its first two batches."""
    loader = torch.utils.data.DataLoader(
        Samples(torch, source),
        batch_size=BATCH,
        num_workers=workers,
        multiprocessing_context="fork",  # this program comes from standard input, which no other process can read again
    )
    batches = iter(loader)
    for _batch in range(2 * workers):
        next(batches)
    begin, count = time.monotonic(), 0
    while time.monotonic() - begin < seconds:
        count += len(next(batches))
    return count / (time.monotonic() - begin)


def model(torch: Any) -> Any:
    """Return a residual network of 50 layers for 1000 classes (He et al., arXiv:1512.03385, table 1)."""
    nn = torch.nn

    def normed(inner: int, outer: int, size: int, stride: int = 1) -> list[Any]:
        return [nn.Conv2d(inner, outer, size, stride, size // 2, bias=False), nn.BatchNorm2d(outer)]

    class Block(nn.Module):  # type: ignore[name-defined]
        def __init__(self, inner: int, width: int, stride: int) -> None:
            super().__init__()
            self.way = nn.Sequential(
                *normed(inner, width, 1),
                nn.ReLU(),
                *normed(width, width, 3, stride),
                nn.ReLU(),
                *normed(width, 4 * width, 1),
            )
            changes = stride > 1 or inner != 4 * width
            self.beside = nn.Sequential(*normed(inner, 4 * width, 1, stride)) if changes else nn.Identity()

        def forward(self, images: Any) -> Any:
            return torch.relu(self.way(images) + self.beside(images))

    layers = [*normed(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inner = 64
    for width, blocks, first in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for number in range(blocks):
            layers.append(Block(inner, width, 1 if number else first))
            inner = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inner, 1000))


def eats(torch: Any, device: str, count: int, seconds: float) -> float:
    """Return how many images a second a device trains that network with, in bf16 where it is a GPU."""
    network = model(torch).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    images = torch.randn(count, *SHAPE, device=device).contiguous(memory_format=torch.channels_last)
    classes = torch.randint(1000, (count,), device=device)

    def step() -> None:
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(network(images), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()  # waits for the device

    end = time.monotonic() + WARM_UP_SECONDS
    step()
    while time.monotonic() < end:
        step()
    begin, done = time.monotonic(), 0
    while time.monotonic() - begin < seconds:
        step()
        done += count
    return done / (time.monotonic() - begin)


def sources(directory: str, paths: list[str]) -> dict[str, Any]:
    """Return what samples are taken from, by name."""
    found: dict[str, Any] = {"memory": Memory()}
    if paths:
        found |= {"files": Files(paths), "memmap": Map(paths[0])}
    try:
        lmdb = import_module("lmdb")  # many environments have none
    except ImportError:
        return found
    if directory != "-":
        try:
            found["lmdb"] = Lmdb(lmdb, directory)
        except (OSError, lmdb.Error) as error:
            say(lmdb_failed=str(error))
    return found


def say(**values: Any) -> None:
    """Print one line of results."""
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Measure all sources with all numbers of workers, then the GPU."""
    import torch  # noqa: PLC0415 - only the interpreter that runs this program has it
    import torch.utils.data  # noqa: PLC0415

    directory, listed, numbers, seconds = sys.argv[1:]
    torch.set_num_threads(1)
    paths = [path for path in Path(listed).read_text(encoding="utf-8", errors="surrogateescape").split("\n") if path]
    for name, source in sources(directory, paths).items():
        for workers in map(int, numbers.split(",")):
            say(source=name, workers=workers, rate=round(rate(torch, source, workers, float(seconds)), 1))
    if torch.cuda.is_available():  # last: no worker may be forked from a process that uses CUDA
        say(eats=round(eats(torch, "cuda", TRAINED, 2 * float(seconds)), 1))


if __name__ == "__main__":
    main()
