"""A stub in PyTorch's place. It multiplies nothing: tests see how gpulab's programs begin, end and report, no rate.

STUB_TORCH: "" (works), "no-gpu", "hang", "old" (compute capability 7.0), "wrong" (as old, and a result differs).
"""

# ruff: noqa: D102, D105, D107
import os
import time
from types import SimpleNamespace

from . import distributed as distributed

MODE = os.environ.get("STUB_TORCH", "")
__version__ = "0.stub"
version = SimpleNamespace(cuda="0.0")
float16, bfloat16, float32 = "float16", "bfloat16", "float32"
backends = SimpleNamespace(cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=False)))


class Mask:
    """Which elements have a property, as their number."""

    def __init__(self, count):
        self.count = count

    def __invert__(self):
        return Mask(0)

    def __or__(self, other):
        return Mask(self.count + other.count)

    def sum(self):
        return self

    def item(self):
        return self.count


class Tensor:
    """A tensor of one value; a product is right at first, and later what MODE says."""

    products = 0

    def __init__(self, value=1.0):
        self.value = value

    def to(self, _kind):
        return self

    def zero_(self):
        self.value = 0.0

    def __matmul__(self, other):
        Tensor.products += 1
        return Tensor(2.0 if MODE == "wrong" and Tensor.products > 1 else 1.0)

    def __ne__(self, other):
        return Mask(int(self.value != getattr(other, "value", other)))

    __hash__ = None


class Event:
    """An event; everything takes one millisecond."""

    def __init__(self, *, enable_timing):
        assert enable_timing

    def record(self):
        pass

    def elapsed_time(self, _end):
        return 1.0


def _synchronize():
    time.sleep(3600 if MODE == "hang" else 0.01)


cuda = SimpleNamespace(
    is_available=lambda: MODE != "no-gpu",
    get_device_capability=lambda: (7, 0) if MODE in {"old", "wrong"} else (8, 0),
    mem_get_info=lambda: (8 << 30, 16 << 30),
    synchronize=_synchronize,
    set_device=lambda _rank: None,
    Event=Event,
)


def manual_seed(_seed):
    pass


def randn(*_size, device):
    assert device == "cuda"
    return Tensor()


def full(_size, value, device):
    assert device == "cuda"
    return Tensor(value)


def isfinite(_tensor):
    return Mask(0)
