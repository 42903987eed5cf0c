"""A BMC by IPMI: OpenIPMI's ipmi_sim, real sessions over the network; its chassis is a script with files.

No real BMC was ever asked. ipmi_sim keeps of the next boot only the device, never that it is valid: it is the bad BMC
of the tests. A good one is ipmitool with a script before it that answers for the next boot alone (keeps_the_boot).
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

USER, PASSWORD = "gpulab", "Zephyr-quilt-41"
SERIAL = "GPU4711A"
NEEDS = ("ipmi_sim", "ipmitool")
CHASSIS = """#!/bin/sh
cd {directory}
shift
operation=$1
shift
while [ $# -gt 0 ]; do
    if [ $operation = get ]; then
        echo "$1:$(cat $1)"
        shift
        continue
    fi
    echo "$1 $2" >> asked
    grep -qx "$1 $2" ignores || case "$1 $2" in
        "shutdown "*|"power 0") sh -c "$(cat off)"; echo 0 > power;;
        "power 1") sh -c "$(cat on)"; echo 1 > power;;
        *) echo "$2" > $1;;
    esac
    shift 2
done
"""
LAN = """name "stand-in"
set_working_mc 0x20
  startlan 1
    addr 127.0.0.1 {port}
    priv_limit admin
    allowed_auths_callback none md2 md5 straight
    allowed_auths_user none md2 md5 straight
    allowed_auths_operator none md2 md5 straight
    allowed_auths_admin none md2 md5 straight
    guid a123456789abcdefa123456789abcdef
  endlan
  chassis_control "{directory}/chassis 0x20"
  user 2 true "{user}" "{password}" admin 10 none md2 md5 straight
"""
BMC = """mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 1 4 0x9f 0x1291 0xf02
sel_enable 0x20 {most} 0x0a
mc_add_fru_data 0x20 0 256 data {fru}
sensor_add 0x20 0 1 0x01 0x01
sensor_set_event_support 0x20 0 1 enable scanning per-state {bits} {bits} {bits} {bits}
sensor_set_threshold 0x20 0 1 readable 111000 0x70 0x60 0x50 00 00 00
sensor_set_value 0x20 0 1 {degrees} 0
{sdr}
mc_enable 0x20
"""
KEEPS = """#!/bin/bash
words=" $* "
case "$words" in
*" raw 0x00 0x08 0x05 "*) cd {directory}; printf '%s' "${{words##* 0x05 }}" | sed 's/0x//g' > flags; echo;;
*" raw 0x00 0x09 0x05 "*) cd {directory}; echo " 01 05 $(cat flags)";;
*" power off "*|*" power soft "*) cd {directory}; [ -e forgets ] && echo "00 00 00 00 00" > flags
    exec {ipmitool} "$@";;
*" power on "*) cd {directory}; cp flags at_start; [ -e stays ] || echo "00 00 00 00 00" > flags; exec {ipmitool} "$@";;
*) exec {ipmitool} "$@";;
esac
"""


class Ipmi:
    """A machine behind ipmi_sim, on a free port of this machine.

    power: "1" or "0". ignores: what is taken and not done, such as "power 0". off, on: commands that a change of power
    runs, too.
    """

    def __init__(self, directory: Path, serial: str = SERIAL, degrees: int = 0x20, sensors: int = 1) -> None:
        """Start it, and wait until it answers."""
        self.directory = directory
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"127.0.0.1:{port}"
        for name, text in (("power", "1"), ("boot", "none"), ("ignores", ""), ("asked", ""), ("off", ""), ("on", "")):
            self.write(name, text)
        self.write("chassis", CHASSIS.format(directory=directory))
        (directory / "chassis").chmod(0o755)
        self.write("lan.conf", LAN.format(port=port, directory=directory, user=USER, password=PASSWORD))
        sdr = sensors * f"main_sdr_add 0x20 {_hex(_sdr())}"
        made = BMC.format(fru=_hex(_fru(serial)), most=1000, bits="000111111000000", degrees=degrees, sdr=sdr)
        self.write("bmc.emu", made)
        self._running = subprocess.Popen(
            ["ipmi_sim", "-c", "lan.conf", "-f", "bmc.emu", "-s", directory / "state", "-n"],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._until_it_answers()

    def _until_it_answers(self) -> None:
        for _try in range(50):
            if self.do("sel", "time", "set", "now").returncode == 0:
                return
            time.sleep(0.1)
        message = "ipmi_sim does not answer"
        raise RuntimeError(message)

    def close(self) -> None:
        """End it."""
        self._running.kill()
        self._running.wait()

    def do(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Ask it as its administrator."""
        host, _colon, port = self.address.partition(":")
        argv = ["ipmitool", "-I", "lanplus", "-H", host, "-p", port, "-U", USER, "-E", "-C", "3", "-N", "1", "-R", "1"]
        environment = {**os.environ, "IPMI_PASSWORD": PASSWORD, "LC_ALL": "C", "TZ": "UTC0"}
        return subprocess.run([*argv, *words], env=environment, check=False, capture_output=True, text=True)

    def record(self, kind: int, event: int, data: int, direction: int = 0) -> None:
        """Add a record to its log: the sensor's type, the kind of event, what happened."""
        record = [0, 0, 2, 0, 0, 0, 0, 0x20, 0, 4, kind, 0x51, direction | event, data, 0xFF, 0xFF]
        assert self.do("raw", "0x0a", "0x44", *map(hex, record)).returncode == 0

    def read(self, name: str) -> str:
        """Return one of its files."""
        return (self.directory / name).read_text(encoding="utf-8").strip()

    def write(self, name: str, text: str) -> None:
        """Write one of its files."""
        (self.directory / name).write_text(f"{text}\n" if text else "", encoding="utf-8")

    @property
    def asked(self) -> list[str]:
        """Return the changes that it was asked for."""
        return self.read("asked").splitlines()

    def keeps_the_boot(self) -> str:
        """Let the next boot be kept by a script before ipmitool; return the directory that PATH has to begin with."""
        before = self.directory / "bin"
        before.mkdir()
        script = before / "ipmitool"
        script.write_text(KEEPS.format(directory=self.directory, ipmitool=shutil.which("ipmitool")), encoding="utf-8")
        script.chmod(0o755)
        self.write("flags", "00 00 00 00 00")
        return str(before)


def _hex(data: bytes) -> str:
    return " ".join(f"{byte:#04x}" for byte in data)


def _text(value: str) -> bytes:
    return bytes([0xC0 | len(value)]) + value.encode()


def _fru(serial: str) -> bytes:
    """Return the product of FRU 0: maker, name, part number, version, serial number."""
    body = bytes([1, 0, 25]) + b"".join(map(_text, ("Stand-in", "Node 8", "900-1", "A", serial, "", ""))) + b"\xc1"
    length = -(-(len(body) + 1) // 8) * 8
    area = body[:1] + bytes([length // 8]) + body[2:].ljust(length - 3, b"\0")
    head = bytes([1, 0, 0, 0, 1, 0, 0])
    return b"".join(part + bytes([-sum(part) % 256]) for part in (head, area))


def _sdr() -> bytes:
    """Return the record of a sensor of temperature, number 1, in degrees Celsius."""
    name = b"Inlet"
    body = bytes([0x20, 0, 1, 7, 1, 0x7F, 0x68, 1, 1]) + bytes(6) + bytes([0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0])
    body += (
        bytes([0x20, 0x40, 0x10, 0xFF, 0, 0x70, 0x60, 0x50, 0, 0, 0, 0, 0, 0, 0, 0]) + bytes([0xC0 | len(name)]) + name
    )
    return bytes([1, 0, 0x51, 1, len(body)]) + body
