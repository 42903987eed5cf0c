"""Stand-ins for NVIDIA's DCGM packages: their names, dependency, unit and files, and an exporter that reads no GPU."""

from __future__ import annotations

from deb import Package

VERSION = "4.8.2-1"
# Named and started as NVIDIA's unit starts it (github:NVIDIA/dcgm-exporter, packaging/config-files/systemd).
UNIT = """\
[Unit]
Description=Stand-in for DCGM's exporter
Wants=nvidia-dcgm.service
After=nvidia-dcgm.service

[Service]
User=root
ExecStart=/usr/bin/dcgm-exporter -f /etc/dcgm-exporter/default-counters.csv
Restart=on-abort

[Install]
WantedBy=multi-user.target
"""
EXPORTER = '''\
#!/usr/bin/python3
"""Stand-in for DCGM's exporter, for tests: it listens where the real one would, and tells of a GPU that it made up."""

import http.server
import os
import sys

METRICS = b'# HELP DCGM_FI_DEV_GPU_TEMP of a stand-in\\nDCGM_FI_DEV_GPU_TEMP{gpu="0"} 40\\n'


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/metrics" else 404)
        self.end_headers()
        self.wfile.write(METRICS if self.path == "/metrics" else b"")


open(sys.argv[sys.argv.index("-f") + 1]).close()
host, _colon, port = os.environ.get("DCGM_EXPORTER_LISTEN", ":9400").rpartition(":")
http.server.ThreadingHTTPServer((host, int(port)), Handler).serve_forever()
'''


def packages() -> list[Package]:
    """Return DCGM and its exporter."""
    return [
        Package("datacenter-gpu-manager-4-core", "1:4.6.0-1", {}),
        Package(
            "datacenter-gpu-manager-exporter",
            VERSION,
            {"Depends": "datacenter-gpu-manager-4-core"},
            files={
                "/lib/systemd/system/nvidia-dcgm-exporter.service": UNIT,
                "/usr/bin/dcgm-exporter": EXPORTER,
                "/etc/dcgm-exporter/default-counters.csv": "DCGM_FI_DEV_GPU_TEMP, gauge, GPU temperature (in C).\n",
            },
        ),
    ]
