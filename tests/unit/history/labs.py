"""A lab whose GPUs are proven night after night, as the report follows them, without a report."""

from collections import Counter
from datetime import date, timedelta

from ansible_collections.gpulab.node.plugins.plugin_utils.history import falls
from ansible_collections.gpulab.node.plugins.plugin_utils.history.memory import Memory, Settings
from ansible_collections.gpulab.node.plugins.plugin_utils.history.series import new

FIRST = date(2026, 1, 1)
GPU = {
    "model": "NVIDIA H100",
    "device": "10de:2330",
    "vbios": "96.00",
    "power_limit_watts": 700,
    "pcie": "gen 5 of 5, x16",
    "temperature_celsius": 35,
    "remapped_rows": 0,
}
LINE = {"schema": 1, "state": "verified", "simulated": None, "driver": "580.1", "rates": {}, "findings": []}


def line(night, host, of_gpus, **more):
    """Return a line of a host: of each GPU, by its number, a rate or a dict of what else is so."""
    gpus = [
        {
            **GPU,
            "index": index,
            "uuid": f"{host}-{index}",
            "serial": f"{host}-{index}",
            "bus_id": f"0000:{index:02x}:00.0",
            "rates": {"memory_gbs": rate} if isinstance(rate, (int, float)) else {},
            **(rate if isinstance(rate, dict) else {}),
        }
        for index, rate in enumerate(of_gpus)
    ]
    return {**LINE, "created": f"{FIRST + timedelta(days=night)}T03:00:00Z", "gpus": gpus, **more}


class Lab:
    """What a lab's history says, night after night."""

    def __init__(self):
        """Nothing was proven yet."""
        self.memory = Memory(None, Settings())
        self.states = {}
        self.night = -1
        self.memory.before = lambda host, _earlier: self.states.setdefault(host, new())

    def proof(self, hosts):
        """Return what is told after a proof of hosts: their rates, or a pair of rates and what is so of the line."""
        self.night += 1
        lines = {}
        for host, rates in hosts.items():
            rates, more = rates if isinstance(rates, tuple) else (rates, {})  # noqa: PLW2901
            lines[host] = line(self.night, host, rates, **more)
        proven, known, fell = self.memory.proven(lines.values()), Counter(), []
        for host, last in lines.items():
            state = proven.follow(host, last, [])
            fell += falls.falls(host, state, last, self.memory.promised(state), known)
        return falls.told(fell, known)
