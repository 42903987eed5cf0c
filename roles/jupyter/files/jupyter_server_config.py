"""What counts as work in a server: cells that run, and files that are saved; not that a page is open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_server._tz import utcnow
from jupyter_server.base.handlers import APIHandler
from jupyter_server.serverapp import ServerWebApplication

if TYPE_CHECKING:
    from datetime import datetime

of_request, of_server = APIHandler.update_api_activity, ServerWebApplication.last_activity


def update_api_activity(self: Any) -> None:
    """Note a request, unless it only reads, or is that by which an open page keeps how it looks every ten seconds."""
    if self.request.method not in {"GET", "HEAD", "OPTIONS"} and "/lab/api/" not in self.request.path:
        of_request(self)


def last_activity(self: Any) -> datetime:
    """Return when somebody worked here last: now, while a kernel computes, though it prints nothing."""
    kernels = self.settings["kernel_manager"].list_kernels()
    return utcnow() if any(kernel["execution_state"] == "busy" for kernel in kernels) else of_server(self)


APIHandler.update_api_activity, ServerWebApplication.last_activity = update_api_activity, last_activity
