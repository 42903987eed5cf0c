"""A program for an interpreter that has PyTorch: train a little on the first GPU, and print one line of JSON.

    python training.py DIRECTORY

Without a GPU, the processors train. The data lies in a file of the directory, mapped into memory, and DataLoader's
processes read it. amp_loss: the loss before and after the steps with automatic mixed precision. compiled_differs: by
how much torch.compile's answer of the same model differs from the model's. samples_per_second: of the steps after the
first. holding: printed first, once the GPU is held, for whoever wants to see that; then the program waits for a line on
its input.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

SAMPLES, WIDTH, CLASSES, BATCH, STEPS = 4096, 512, 10, 256, 60


class Samples(torch.utils.data.Dataset):
    """Samples of a file: a class, and a vector that tells it."""

    def __init__(self, path: Path) -> None:
        """Map the file."""
        self._data = np.memmap(path, np.float32, "r", shape=(SAMPLES, WIDTH))

    def __len__(self) -> int:
        """Return how many there are."""
        return SAMPLES

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        """Return a sample."""
        return torch.from_numpy(np.array(self._data[number])), number % CLASSES


def main() -> None:
    """Make the data, train, compare, print."""
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    half = torch.float16 if device.type == "cuda" else torch.bfloat16
    held = torch.ones(1024, device=device)
    print(json.dumps({"holding": held.sum().item()}), flush=True)
    sys.stdin.readline()
    path = Path(sys.argv[1], "samples")
    data = np.random.default_rng(0).normal(size=(SAMPLES, WIDTH)).astype(np.float32)
    data[np.arange(SAMPLES), np.arange(SAMPLES) % CLASSES] += 4
    data.tofile(path)
    model = nn.Sequential(nn.Linear(WIDTH, 1024), nn.ReLU(), nn.Linear(1024, CLASSES)).to(device)
    optimizer, scaler = torch.optim.AdamW(model.parameters(), 1e-3), torch.amp.GradScaler(device.type)
    loader = torch.utils.data.DataLoader(Samples(path), BATCH, shuffle=True, num_workers=2, pin_memory=True)
    losses: list[float] = []
    started = time.monotonic()
    while len(losses) < STEPS:
        for batch, wanted in loader:
            with torch.autocast(device.type, half):
                loss = nn.functional.cross_entropy(model(batch.to(device)), wanted.to(device))
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
            started = time.monotonic() if len(losses) == 1 else started
    seconds = time.monotonic() - started
    probe = torch.randn(BATCH, WIDTH, device=device)
    with torch.no_grad():
        differs = (torch.compile(model)(probe) - model(probe)).abs().max().item()
    told = {"amp_loss": [round(losses[0], 3), round(losses[-1], 3)], "compiled_differs": differs}
    print(json.dumps({**told, "samples_per_second": round(BATCH * (len(losses) - 1) / seconds)}))


main()
