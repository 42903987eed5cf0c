"""A stub in torch.distributed's place: ranks meet at the store's file, and one of them computes the sum."""

import os
import time
from pathlib import Path

COUNT = 0


def init_process_group(backend, *, init_method, rank, world_size, timeout):
    assert backend == "nccl"
    assert timeout.total_seconds() > 0
    global COUNT  # noqa: PLW0603 - as short as a stub may be
    COUNT = world_size
    if os.environ.get("STUB_TORCH") == f"rank-{rank}-fails":
        message = "unhandled system error"
        raise SystemError(message)
    meeting = Path(init_method.removeprefix("file://"))
    Path(f"{meeting}.{rank}").touch()
    while len(list(meeting.parent.glob(f"{meeting.name}.*"))) < world_size:
        time.sleep(0.01)


def all_reduce(data):
    data.value = COUNT * (COUNT + 1) / 2


def destroy_process_group():
    pass
