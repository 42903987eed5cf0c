"""JupyterHub for people of a node of Slurm: a server is a job of its user's on this node, with what the choice has."""

from __future__ import annotations

import asyncio
import grp
import html
import json
import os
import pwd
import shlex
import sys
from pathlib import Path

import pamela
from batchspawner import SlurmSpawner, api
from jupyterhub.auth import PAMAuthenticator
from tornado import web

scope: dict = {}
exec(Path(__file__).with_name("settings.py").read_text(encoding="utf-8"), scope)  # noqa: S102 - root's file beside this one
SETTINGS = scope["SETTINGS"]
CHOICES = {choice["name"]: choice for choice in SETTINGS["choices"]}
PROGRAMS = Path(sys.executable).parent
# Numbers of people's accounts: below are those of the system, above two people would have one address (state_gethost).
PEOPLE = range(1000, 2**23)
# A login shell, as in a job that somebody submits. The journal takes what the server says: a full home stops none.
SCRIPT = """#!/bin/bash -l
#SBATCH --job-name=gpulab-jupyter
#SBATCH --output=/dev/null
#SBATCH --chdir={{homedir}}
#SBATCH --nodelist={{node}}
#SBATCH --time={{hours}}:00:00
#SBATCH --cpus-per-task={{cores}}
{% if memory %}#SBATCH --mem={{memory}}
{% endif %}{% if gpus %}#SBATCH --gres=gpu:{{gpus}}
{% endif %}umask 0022
unset ${!SUDO_*}
export JUPYTER_RUNTIME_DIR=$(mktemp --directory /tmp/jupyter-XXXXXXXX)
trap 'rm --recursive --force "$JUPYTER_RUNTIME_DIR"' EXIT
export JUPYTER_CONFIG_PATH=/etc/gpulab-jupyter/server
{% for name, text in pems.items() %}cat > "$JUPYTER_RUNTIME_DIR/{{name}}" <<'PEM'
{{text}}PEM
export JUPYTERHUB_SSL_{{name}}="$JUPYTER_RUNTIME_DIR/{{name}}"
{% endfor %}systemd-cat --identifier=gpulab-jupyter {{cmd}}
"""


def is_member(name: str) -> bool:
    """Tell whether an account of the node is a person's, and in one of the groups."""
    try:
        account = pwd.getpwnam(name)
        gids = os.getgrouplist(name, account.pw_gid)
        wanted = {grp.getgrnam(group).gr_gid for group in SETTINGS["users"]}
    except KeyError:
        return False
    return account.pw_uid in PEOPLE and not wanted.isdisjoint(gids)


class Members(PAMAuthenticator):
    """Lets members of the groups in by their password. PAM is asked for nobody else; who is taken out is out."""

    async def authenticate(self, handler, data):  # noqa: ANN001, ANN201
        """Return the name of who may come in, or None."""
        name = self.normalize_username(data["username"])
        if not data["password"] or not self.validate_username(name) or not await asyncio.to_thread(is_member, name):
            return None
        return await super().authenticate(handler, {**data, "username": name})

    async def refresh_user(self, user, handler=None):  # noqa: ANN001, ANN201
        """Tell whether somebody who is logged in still may be. A token of somebody who may not is refused."""
        allowed = await asyncio.to_thread(self.may_stay, user.name)
        if not allowed and getattr(handler, "_token_authenticated", False):
            raise web.HTTPError(403, "The account has ended, or is in none of the groups.")
        return allowed

    def may_stay(self, name: str) -> bool:
        """Tell whether the account of somebody has not ended, and is in one of the groups still."""
        try:
            pamela.check_account(name, service=self.service)
        except pamela.PAMError:
            return False
        return is_member(name)


@web.authenticated
def take_port(self) -> None:  # noqa: ANN001 - tornado's handler
    """Take from a server the port where it listens. batchspawner's own sets whatever a spawner has, commands too."""
    token, given = self.get_auth_token(), self.get_json_body()
    spawners = getattr(self.current_user, "spawners", {}).values()  # a service has none
    spawner = next((each for each in spawners if token and each.api_token == token), None)
    port = given.get("port") if isinstance(given, dict) and len(given) == 1 else None
    if spawner is None or type(port) is not int or not 1024 <= port <= 65535:  # noqa: PLR2004
        raise web.HTTPError(400, "A server tells its port and nothing else.")
    spawner.port = port
    self.set_status(201)


api.BatchSpawnerAPIHandler.post = take_port


class Server(SlurmSpawner):
    """A job with what the choice has, whatever else somebody asks the hub for.

    It listens on an address of its user's on the loopback, and has a certificate for that alone: who takes the port of
    a server that has ended gets nothing of what the page sends there.
    """

    def state_gethost(self) -> str:
        """Return where the server listens."""
        uid = pwd.getpwnam(self.user.name).pw_uid
        return f"127.{64 + (uid >> 16) % 128}.{uid >> 8 & 255}.{uid & 255}"

    async def submit_batch_script(self):  # noqa: ANN201
        """Submit the job, which is told where to listen."""
        self.ip = self.state_gethost()
        return await super().submit_batch_script()

    def move_certs(self, paths: dict[str, str]) -> dict[str, str]:
        """Keep the texts for the script; the files are the hub's."""
        names = {"KEYFILE": "keyfile", "CERTFILE": "certfile", "CLIENT_CA": "cafile"}
        self.pems = {name: Path(paths[place]).read_text(encoding="utf-8") for name, place in names.items()}
        return paths

    async def _get_batch_script(self, **_variables):  # noqa: ANN003, ANN202
        name, kernel = (self.user_options.get(part) for part in ("choice", "environment"))
        name = next(iter(CHOICES)) if name is None else name
        if name not in list(CHOICES) or kernel not in [None, *kernels()]:
            raise web.HTTPError(400, "There is no such choice.")
        first = f" --MultiKernelManager.default_kernel_name={shlex.quote(kernel)}" if kernel else ""
        known = {"cmd": self.cmd_formatted_for_batch() + first, "homedir": self.req_homedir, "node": SETTINGS["node"]}
        choice = {"memory": None, "cores": 1, **CHOICES[name]}
        return await super()._get_batch_script(**choice, **known, pems=self.pems)


def kernels() -> dict[str, str]:
    """Return the environments of the node: what people read, by the names of their kernels."""
    places = Path("/usr/local/share/jupyter/kernels")
    files = [path for kind in ("venv", "conda") for path in sorted(places.glob(f"{kind}-*/kernel.json"))]
    return {path.parent.name: json.loads(path.read_text(encoding="utf-8"))["display_name"] for path in files}


def form(_server: Server) -> str:
    """Return the form in which people choose."""
    choices = {name: f"{name}: {choice['gpus']} GPU, {choice['hours']} h" for name, choice in CHOICES.items()}
    return select("choice", "What for", choices) + select("environment", "Environment", kernels())


def select(name: str, label: str, options: dict[str, str]) -> str:
    """Return a part of the form: one of the options, by their values what people read."""
    lines = "".join(
        f'<option value="{html.escape(value)}">{html.escape(text)}</option>' for value, text in options.items()
    )
    return f'<label for="{name}">{label}</label><select class="form-select" name="{name}" id="{name}">{lines}</select>'


c = get_config()  # noqa: F821 - JupyterHub gives it
c.JupyterHub.bind_url = f"https://:{SETTINGS['port']}"
c.JupyterHub.ssl_cert = "/etc/gpulab-jupyter/certificate.pem"
c.JupyterHub.ssl_key = "/etc/gpulab-jupyter/key.pem"
c.JupyterHub.internal_ssl = True
c.JupyterHub.cleanup_servers = False
c.JupyterHub.upgrade_db = True  # of an older hub, as a rebuild may bring
c.JupyterHub.authenticator_class = Members
c.JupyterHub.spawner_class = Server
c.ConfigurableHTTPProxy.command = [
    "/usr/bin/node",
    "--require=/etc/gpulab-jupyter/proxy.js",
    "/usr/bin/configurable-http-proxy",
]
c.Authenticator.allowed_groups = set(SETTINGS["users"])
c.Authenticator.username_pattern = r"[a-z_][a-z0-9_.-]{0,31}\Z"
c.Authenticator.auth_refresh_age = 60
c.Authenticator.refresh_pre_spawn = True
c.PAMAuthenticator.open_sessions = False
c.Spawner.ssl_alt_names = lambda server: [f"IP:{server.state_gethost()}"]
c.Spawner.ssl_alt_names_include_local = False
c.Spawner.default_url = "/lab"
c.Spawner.options_form = form
c.Spawner.options_from_form = lambda given: {name: given.get(name, [None])[0] for name in ("choice", "environment")}
c.Spawner.poll_interval = 15
c.Spawner.cmd = [str(PROGRAMS / "jupyterhub-singleuser")]
c.SlurmSpawner.batchspawner_singleuser_cmd = str(PROGRAMS / "batchspawner-singleuser")
c.SlurmSpawner.batch_script = SCRIPT
c.SlurmSpawner.req_srun = ""
c.SlurmSpawner.exec_prefix = "/usr/bin/sudo --non-interactive --user={username}"
c.SlurmSpawner.batch_submit_cmd = "/usr/bin/sbatch --parsable"
# By name, too: where Slurm counts from 1 again, as after a rebuild, another job of the person's has the number.
c.SlurmSpawner.batch_query_cmd = "/usr/bin/squeue -h -n gpulab-jupyter -j {job_id} -o %T"
c.SlurmSpawner.batch_cancel_cmd = "/usr/bin/scancel {job_id}"

# A server ends itself when nobody works in it (server/jupyter_server_config.py); the hub ends one that reports nothing.
idle = SETTINGS["idle_minutes"] * 60
interval = max(10, min(300, idle // 4))
c.Spawner.args = [
    "--KernelManager.transport=ipc",  # what a kernel prints is read by whoever reaches its ports
    f"--MappingKernelManager.cull_idle_timeout={idle}",
    f"--MappingKernelManager.cull_interval={interval}",
    "--MappingKernelManager.cull_connected=True",
    f"--TerminalManager.cull_inactive_timeout={idle}",
    f"--TerminalManager.cull_interval={interval}",
    f"--ServerApp.shutdown_no_activity_timeout={idle}",
]
culler = [sys.executable, "-m", "jupyterhub_idle_culler", f"--timeout={idle + 900}", f"--cull-every={interval}"]
culler.append("--ssl-enabled=true")
c.JupyterHub.services = [{"name": "culler", "command": culler}]
c.JupyterHub.load_roles = [
    {
        "name": "culler",
        "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
        "services": ["culler"],
    }
]
