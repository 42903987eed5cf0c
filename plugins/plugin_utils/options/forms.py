# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The form of each text that an inventory may set. The argument specs do not say it; here it stands once per option.

Texts are written to files of other programs, to scripts and to arguments. Whatever its form, a text is one line without
control characters. tests/unit/inventory_check/test_forms.py fails for an option that is not in the table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ansible_collections.gpulab.node.plugins.module_utils.core import host_name, quoting, shown
from ansible_collections.gpulab.node.plugins.module_utils.system.kernel_values import SYSCTL


@dataclass(frozen=True)
class Form:
    """A pattern that the whole text matches, and words that describe it; None means the option's own description.

    choices are those of a list that may be null: Ansible takes null for a choice that an argument spec does not have.

    entries describe a mapping: patterns of its names, and the form of the values of each; the words then describe a
    name. secret is true where no message may show the text. elsewhere says where else a password can be set; it is
    set where an address with a password would become public. The value of a mapping's name is text or a number: null is
    one, too, where it is nullable, and what is nested is judged by whom it is for.
    """

    pattern: str = ".+"
    words: str | None = None
    most: int = 255
    choices: tuple[str, ...] = ()
    entries: tuple[tuple[str, Form], ...] = ()
    secret: bool = False
    elsewhere: str | None = None
    nullable: bool = False
    nested: bool = False

    def fits(self, text: str) -> bool:
        """Tell whether a text in which problem() finds nothing has this form."""
        return re.fullmatch(self.pattern, text) is not None

    def problem(self, text: str) -> str | None:
        """Return what is wrong with a text, without showing the text; None where nothing is."""
        wrong = quoting.problem(text)
        if wrong is None and len(text) > self.most:
            return f"more than {self.most} characters"
        return wrong

    def of_entry(self, key: str) -> Form | None:
        """Return the form of a mapping's value by its name; None where the mapping takes no such name."""
        fitting = (form for pattern, form in self.entries if re.fullmatch(pattern, key) and not self.problem(key))
        return next(fitting, None)

    def takes(self, value: object) -> bool:
        """Tell whether a mapping's value is of a type that a line of a file can hold."""
        if self.nested or (value is None and self.nullable):
            return True
        return isinstance(value, (str, int, float)) and not isinstance(value, bool)

    def shows_password(self, text: str) -> bool:
        """Tell whether an address has a password where it would become public."""
        return self.elsewhere is not None and shown.has_secret(text)


PERSON = Form(r"[a-z_][a-z0-9_-]{0,31}", "at most 32 small letters, digits, '_' and '-'", most=32)
# Of what is no public key no message may show the text: it may be a private one.
PUBLIC_KEY = Form(r"[a-z][a-z0-9@.-]* \S+( .*)?", "a public key, as the line of a file .pub", most=16384, secret=True)
CALENDAR = Form(r"[A-Za-z0-9*][A-Za-z0-9*,./:~ -]*", "a calendar event of systemd's, such as *-*-* 02:00")
LINE = Form(words="one line of text", most=4096)
NESTED = Form(words=LINE.words, most=LINE.most, nested=True)
NAME = Form(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", "a name of letters, digits and '_.-'")
SHARE = Form(r"[1-9]\d{0,5}|([1-9]\d?|100)%", "a number of nodes, or a share such as 25%")
MOMENT = Form(
    r"\d\d:\d\d|\d{4}-\d\d-\d\d( \d\d:\d\d)?", 'a time such as "08:00", in quotes, or a day such as 2026-12-20'
)
UNTIL = Form(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "a time in UTC, such as 2026-11-26T23:00:00Z")
SMALL_NAME = Form(r"[a-z][a-z0-9_.-]*", None)
VERSION = Form(r"\d+(\.\d+)*", None)
CUDA_VERSION = Form(r"\d{2}\.\d", None)
BRANCH = Form(r"\d{3}", None)
SHA256 = Form(r"[0-9a-fA-F]{64}", "a SHA-256, 64 hexadecimal digits")
FINGERPRINT = Form(r"[0-9A-Fa-f]( *[0-9A-Fa-f]){39,63}", "a whole fingerprint, 40 or 64 hexadecimal digits")
SIZE = Form(r"-1|\d+(\.\d+)? ?([kKmMgGtT]i?)?[bB]?", "a size such as 64m or 8g")
DAY = Form(r"\d{4}-\d\d-\d\d", "a day, as YYYY-MM-DD")
ROOM = Form(r"[1-9]\d{0,5}[KMGT]", "a size such as 50G")
SECRET = Form(LINE.pattern, LINE.words, LINE.most, secret=True)
MAIL = Form(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*@[A-Za-z0-9_][A-Za-z0-9_.-]*", "an address of mail")
ENDPOINT = Form(r"[A-Za-z0-9_][A-Za-z0-9_.-]*:\d{1,5}", "a host and a port, such as mail.lab:587")
HERE = Form(words="a path on the controller", most=4096)
PLACE = Form(
    r"(/(?!\.{1,2}(/|$))[A-Za-z0-9_@+.,=-]+)+/?",
    "an absolute path of letters, digits and '_@+.,=-', without '..'",
    most=1024,
)
STRAY = Form(
    rf"{PLACE.pattern}|[A-Za-z0-9][A-Za-z0-9+.-]*", "the whole name of a directory, a file or a package", most=1024
)
ANY_PLACE = Form(r"/|(/(?!\.{1,2}(/|$))[^/]+)+/?", "an absolute path, without '..'", most=4096)
PATTERN = Form(r"~?/(?!.*/\.{1,2}(/|$)).*|\*\*/.+", "an absolute path or pattern, without '..'", most=4096)
INTERPRETER = Form(  # an argument only, in which Ansible expands ~
    rf"(~[A-Za-z0-9_.-]*)?({ANY_PLACE.pattern})|{NAME.pattern}", "an interpreter's path on the node, without '..'", 4096
)
ACCOUNT = Form(r"[A-Za-z0-9_][A-Za-z0-9_.@\\$ -]*", "a name of a user or group, without ':' and ','")
ENTRY = Form(r"[A-Za-z][A-Za-z0-9.-]*=.*", "the name of an entry, such as dc=lab,dc=example", 1024)
ADDRESS = Form(r"[0-9A-Fa-f.:]+(%[A-Za-z0-9_.-]+)?", "an IP address")
REGISTRY = Form(r"[A-Za-z0-9][A-Za-z0-9.-]*(:\d{1,5})?", "a registry, as HOST or HOST:PORT")
HOST = Form(r"[A-Za-z0-9_][A-Za-z0-9_.-]*|[0-9A-Fa-f:]+(%[A-Za-z0-9_.-]+)?", "a host's name or IP address")
HOST_NAME = Form(host_name.FORM, "a host's name of letters, digits, '-' and '.'", host_name.MOST)
HOSTS = Form(r"<local>|[A-Za-z0-9.*:\[][A-Za-z0-9.*:\]/_-]*", "a host, a domain, an address or a network")
URL = Form(
    r"[a-z][a-z0-9+.-]*://\S+", "an address with its scheme, such as https://, without blanks", 2048, secret=True
)
PROXY = Form(
    r"(https?|socks[45]?[ah]?)://\S+",
    "the address of a proxy with its scheme, such as http://proxy.example:3128, without blanks",
    most=2048,
    secret=True,
)
MIRROR = Form(
    URL.pattern,
    URL.words,
    URL.most,
    secret=True,
    elsewhere="Write it in /etc/apt/auth.conf.d on the node, or let the mirror admit nodes by their addresses",
)
FETCHED = Form(
    r"[^-].*",
    "an address, or a path on the controller",
    2048,
    secret=True,
    elsewhere="Use a server that needs no password, or a path on the controller",
)
SOURCE = Form(URL.pattern, URL.words, URL.most, secret=True, elsewhere="Use a server that needs no password")
CHANNEL = Form(r"[A-Za-z0-9/.][^\s$]*", "a channel's name or address", 2048, secret=True)
# YAML 1.1 reads 12:00:00 as the number 43200, which Slurm would take for minutes.
SLURM_TIME = Form(
    r"\d+-\d{1,2}(:\d\d){0,2}|\d+:\d\d:\d\d", 'a time as "12:00:00" (hours, in quotes) or 2-00:00:00 (days)', 20
)
CHANNELS = Form(r"[a-z][a-z0-9+.-]*://[^\s$]+", "an address with its scheme, without blanks and '$'", 2048, secret=True)
REQUIREMENT = Form(
    r"(?!.*\S\s+[-#]).*\S",
    "one package, such as numpy<2.4, and no option of the installer",
    2048,
    secret=True,
    elsewhere="Write it in root's .netrc on the node, or take the package from an index",
)
REPLACED = Form(words="packages", entries=((".+", replace(REQUIREMENT, nullable=True)),))
PARAMETERS = Form(
    words="names of parameters",
    entries=((r"[A-Za-z0-9_]+", Form(r'[^"]*', "a value without a double quote", 1024)),),
)
SLURM_VALUE = Form(r'[^\s"#\\]+|"[^"#\\]*"', "one value; one with blanks stands in double quotes", 4096)
TUNED = Form(r"[A-Za-z0-9_.,:=/+@%-]+", "a word of letters, digits and '_.,:=/+@%-'")

BUNDLE = Form(
    rf"{PLACE.pattern}|https?://[^\s@$#?]+",
    "an absolute path of letters, digits and '_@+.,=-' on the node, or an address with https://",
    most=1024,
)

OPTIONS: dict[str, Form] = {
    "acceptance_allow_untested": HOST,
    "acceptance_certificate": HERE,
    "acceptance_directory": HERE,
    "acceptance_domain": LINE,
    "acceptance_floors.board": LINE,
    "acceptance_floors.source": LINE,
    "acceptance_hosts": LINE,
    "acceptance_key": HERE,
    "acceptance_signers": HERE,
    "acceptance_until": UNTIL,
    "advisories_accepted.because": LINE,
    "advisories_accepted.by": LINE,
    "advisories_accepted.cve": Form(r"CVE-\d{4}-\d{4,}", "a number such as CVE-2025-23266"),
    "advisories_accepted.until": DAY,
    "base_apt_components": Form(
        r"(?!.*(//|\.\.))[A-Za-z0-9]([A-Za-z0-9_.+/-]*[A-Za-z0-9])?", "a component's name, such as contrib"
    ),
    "base_ca_certificates": HERE,
    "base_http_proxy": PROXY,
    "base_https_proxy": PROXY,
    "base_no_proxy": HOSTS,
    "bmc_address": Form(
        r"[A-Za-z0-9_][A-Za-z0-9_.-]*(:\d{1,5})?|\[[0-9A-Fa-f:]+\](:\d{1,5})?", "a host or HOST:PORT, IPv6 as [ADDRESS]"
    ),
    "bmc_boot_once": Form(r"[A-Z][A-Za-z0-9]*", "a target as the BMC names it, such as Pxe", 64),
    "bmc_dead": LINE,
    "bmc_fingerprint": Form(r"[0-9A-Fa-f]{2}(:?[0-9A-Fa-f]{2}){31}", "a SHA-256, 64 hexadecimal digits", 95),
    "bmc_firmware_wanted.component": LINE,
    "bmc_firmware_wanted.kind": LINE,
    "bmc_firmware_wanted.versions": LINE,
    "bmc_firmware_wanted.why": LINE,
    "bmc_hosts": LINE,
    "bmc_json": HERE,
    "bmc_password": Form(r"[!-~]+", "a password of printable ASCII without blanks", 256, secret=True),
    "bmc_serial": Form(r"[A-Za-z0-9][A-Za-z0-9._/-]*", "a serial number of letters, digits and '._/-'", 64),
    "bmc_user": Form(r"[A-Za-z0-9_][A-Za-z0-9_.@\\-]*", "a name of letters, digits and '_.@-'", 64),
    "bundle_directory": HERE,
    "bundle_hosts": LINE,
    "bundle_keys": HERE,
    "bundle_signers": HERE,
    "capture_acknowledged.path": PATTERN,
    "capture_acknowledged.reason": LINE,
    "capture_age_recipients": Form(r"(age1|ssh-)\S.*", "a public key of age, age1..., or of SSH, ssh-..."),
    "capture_age_identity": HERE,
    "capture_directory": HERE,
    "capture_documents": HERE,
    "capture_former": NAME,
    "capture_hosts": LINE,
    "capture_later": NAME,
    "capture_paths": PATTERN,
    "capture_receipts.password_file": PLACE,
    "capture_receipts.path": ANY_PLACE,
    "capture_receipts.repository": Form(
        r"(?!-)\S.*", "a repository", 2048, secret=True, elsewhere="Let the program read it from a file on the node"
    ),
    "capture_report": HERE,
    "conda_channel_alias": CHANNELS,
    "conda_channels": CHANNEL,
    "conda_defaults_channel": CHANNEL,
    "conda_directory": PLACE,
    "conda_environments.channels": CHANNEL,
    "conda_environments.file": HERE,
    "conda_environments.group": ACCOUNT,
    "conda_environments.lock": HERE,
    "conda_environments.name": NAME,
    "conda_environments.packages": REQUIREMENT,
    "conda_environments.pip": REQUIREMENT,
    "conda_environments.replace": REPLACED,
    "conda_environments.variables": Form(
        words="names of variables",
        entries=(("[A-Za-z_][A-Za-z0-9_]*", Form(".*", LINE.words, LINE.most, secret=True)),),
    ),
    "conda_environments_absent": NAME,
    "conda_export_directory": HERE,
    "conda_extra_index_urls": URL,
    "conda_index_url": URL,
    "conda_micromamba_sha256": SHA256,
    "conda_micromamba_url": URL,
    "conda_micromamba_version": Form(r"\d[A-Za-z0-9._-]*", "a version, such as 2.8.1-0"),
    "conda_state": Form("present|absent", "present or absent"),
    "container_toolkit_docker_data_root": PLACE,
    "container_toolkit_docker_log_size": SIZE,
    "container_toolkit_docker_repository_fingerprint": FINGERPRINT,
    "container_toolkit_docker_repository_key": HERE,
    "container_toolkit_docker_repository_url": MIRROR,
    "container_toolkit_docker_shm_size": SIZE,
    "container_toolkit_docker_users": ACCOUNT,
    "container_toolkit_engines": Form(choices=("docker", "podman", "containerd")),
    "container_toolkit_registry_mirrors": Form(
        words="names of registries, such as docker.io or nvcr.io", entries=((REGISTRY.pattern, REGISTRY),)
    ),
    "container_toolkit_repository_fingerprint": FINGERPRINT,
    "container_toolkit_repository_key": HERE,
    "container_toolkit_repository_url": MIRROR,
    "container_toolkit_restart_force": LINE,
    "container_toolkit_version": VERSION,
    "cuda_default": CUDA_VERSION,
    "cuda_remove_strays": STRAY,
    "cuda_toolkits": CUDA_VERSION,
    "cudnn_version": VERSION,
    "directory_base": ENTRY,
    "directory_bind_dn": ENTRY,
    "directory_bind_password": Form(r"[!-~]+", "a password of printable ASCII without blanks", 256, secret=True),
    "directory_groups": ACCOUNT,
    "directory_settings": Form(
        words="names of settings of SSSD",
        entries=(("[a-z][a-z0-9_]*", Form(".*", LINE.words, LINE.most, secret=True)),),
    ),
    "directory_uris": Form(r"ldaps://[A-Za-z0-9_.:\[\]-]+/?", "an address such as ldaps://ldap.lab.example"),
    "diagnose_address": Form(r"[A-Za-z0-9_][A-Za-z0-9_.-]*:\d{1,5}|\[[0-9A-Fa-f:]+\]:\d{1,5}", "HOST:PORT"),
    "diagnose_documents": HERE,
    "diagnose_dumps": PLACE,
    "diagnose_environment": PLACE,
    "diagnose_error": LINE,
    "diagnose_hosts": LINE,
    "diagnose_page": HERE,
    "diagnose_parameters": Form(r"\d+(\.\d+)?([eE]\d+)? ?[kKmMbBtT]?", "a number of parameters, such as 7B"),
    "diagnose_user": ACCOUNT,
    "environments_absent": NAME,
    "environments_directory": PLACE,
    "environments_export_directory": HERE,
    "environments_index_url": URL,
    "environments_python_mirror": URL,
    "environments_pytorch_index_url": URL,
    "environments_uv_url": URL,
    "export_directory": HERE,
    "export_key": Form(rf"~?{PLACE.pattern}", "an absolute path, or one below ~/", most=1024),
    "export_name": Form(r"[a-z][a-z0-9-]{1,40}", "at most 41 small letters, digits and '-', as dstack wants it"),
    "export_ray_environment": PLACE,
    "export_user": ACCOUNT,
    "fence_force": LINE,
    "fence_hosts": LINE,
    "fence_kubeconfig": HERE,
    "fence_kubernetes_node": Form(
        r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", "the name of a node in Kubernetes: small letters, digits, '.' and '-'"
    ),
    "fence_passing": ACCOUNT,
    "fence_reason": LINE,
    "fence_run": LINE,
    "fence_until": UNTIL,
    "gpu_settings_per_gpu": Form(words="GPUs by UUID, bus id or index", entries=((".+", NESTED),)),
    "gpu_settings_values": Form(words="names of settings", entries=((".+", NESTED),)),
    "gpulab_allow_branches": BRANCH,
    "gpulab_due": Form(choices=("differing", "all")),
    "gpulab_environments.compile": NAME,
    "gpulab_environments.extras": NAME,
    "gpulab_environments.file": HERE,
    "gpulab_environments.group": ACCOUNT,
    "gpulab_environments.groups": NAME,
    "gpulab_environments.index": Form(r"\w+", None),
    "gpulab_environments.jax": VERSION,
    "gpulab_environments.lock": HERE,
    "gpulab_environments.name": SMALL_NAME,
    "gpulab_environments.packages": REQUIREMENT,
    "gpulab_environments.python": Form(r"3\.\d+", None),
    "gpulab_environments.pytorch": VERSION,
    "gpulab_environments.replace": REPLACED,
    "gpulab_environments.sets": NAME,
    "gpulab_environments.tensorflow": VERSION,
    "gpulab_host_names": HOST_NAME,
    "gpulab_bundle": BUNDLE,
    "gpulab_nvidia_repository_fingerprint": FINGERPRINT,
    "gpulab_nvidia_repository_key": HERE,
    "gpulab_nvidia_repository_url": MIRROR,
    "jupyter_certificate": HERE,
    "jupyter_choices.memory": Form(r"[1-9]\d{0,6}[MGT]", "a size such as 32G"),
    "jupyter_choices.name": Form(r"[^-\\{}][^\\{}]*", "a name without braces and backslashes", 60),
    "jupyter_key": HERE,
    "jupyter_state": Form(choices=("present", "absent")),
    "jupyter_url": Form(
        r"https://[A-Za-z0-9.-]+(:\d{1,5})?/?", "https, a name and a port, such as https://lab.example:8443"
    ),
    "jupyter_users": PERSON,
    "model_store_absent": Form(
        r"[A-Za-z0-9][\w.-]*(/[\w.-]+){0,2}(@[0-9a-f]{40})?", "a repository, such as acme/tiny, or acme/tiny@REVISION"
    ),
    "model_store_at": CALENDAR,
    "model_store_directory": PLACE,
    "model_store_export_directory": HERE,
    "model_store_folder": PLACE,
    "model_store_hub": Form(
        r"https?://[A-Za-z0-9_.:\[\]-]+(/[A-Za-z0-9_./-]*)?", "an address such as https://huggingface.co", 2048
    ),
    "model_store_repositories.files": Form(r"[^-/\s#][^\s]*", "a pattern of files, such as *.safetensors"),
    "model_store_repositories.group": ACCOUNT,
    "model_store_repositories.licence": LINE,
    "model_store_repositories.lock": HERE,
    "model_store_repositories.name": Form(
        r"[A-Za-z0-9][\w.-]*(/[\w.-]+){0,2}", "a repository, such as acme/tiny or datasets/acme/images"
    ),
    "model_store_repositories.revision": Form(r"[A-Za-z0-9][\w./-]*", "a commit, 40 hexadecimal digits", 128),
    "model_store_token": Form(r"[!-~]+", "a token of printable ASCII without blanks", 512, secret=True),
    "monitoring_listen_address": ADDRESS,
    "monitoring_restart_force": LINE,
    "monitoring_server_listen_address": ADDRESS,
    "monitoring_server_mail.from": MAIL,
    "monitoring_server_mail.password": SECRET,
    "monitoring_server_mail.smarthost": ENDPOINT,
    "monitoring_server_mail.to": MAIL,
    "monitoring_server_mail.user": LINE,
    "monitoring_server_webhook_url": URL,
    "monitoring_targets": HERE,
    "nccl_address": HOST,
    "nccl_interface": Form(r"[A-Za-z0-9_][A-Za-z0-9_.:@-]{0,14}", "the name of an interface"),
    "nccl_overrides": Form(
        words="names of NCCL's settings", entries=(("NCCL_[A-Z0-9_]+", Form(".*", LINE.words, 1024, nullable=True)),)
    ),
    "nccl_tests_sha256": SHA256,
    "nccl_tests_url": SOURCE,
    "nccl_version": VERSION,
    "network_address": ADDRESS,
    "network_group": LINE,
    "nightly_directory": PLACE,
    "nightly_hosts": LINE,
    "nightly_inventory": PLACE,
    "nightly_limit": Form(r"[A-Za-z0-9_][A-Za-z0-9_.:,&!*~-]*", "a pattern of hosts without blanks"),
    "nightly_on_failure": Form(r"[A-Za-z0-9_][A-Za-z0-9@_.:-]*\.(service|target)", "a unit of systemd's"),
    "nightly_program": PLACE,
    "nightly_quick_at": CALENDAR,
    "nightly_standard_at": CALENDAR,
    "nightly_user": NAME,
    "nvidia_driver_builds_directory": HERE,
    "nvidia_driver_branch": BRANCH,
    "nvidia_driver_change_force": LINE,
    "nvidia_driver_imex_nodes": ADDRESS,
    "nvidia_driver_kernels": Form(r"[A-Za-z0-9][A-Za-z0-9._+~-]*", "a kernel's release, such as 6.1.0-56-amd64"),
    "nvidia_driver_module_options.nvidia": PARAMETERS,
    "nvidia_driver_module_options.nvidia_drm": PARAMETERS,
    "nvidia_driver_module_options.nvidia_modeset": PARAMETERS,
    "nvidia_driver_module_options.nvidia_peermem": PARAMETERS,
    "nvidia_driver_module_options.nvidia_uvm": PARAMETERS,
    "nvidia_driver_runfile": FETCHED,
    "nvidia_driver_runfile_sha256": Form(r"[0-9a-f]{64}", None),
    "nvidia_driver_version": Form(r"\d{3}(\.\d+){1,2}", None),
    "plan_hosts": LINE,
    "plan_json": HERE,
    "preflight_dataset_mounts": ANY_PLACE,
    "reboot_force": LINE,
    "rebuild_age_identity": HERE,
    "rebuild_capture": NAME,
    "rebuild_extra_index_urls": URL,
    "rebuild_unsigned": NAME,
    "reinstall_confirm": LINE,
    "reinstall_hosts": LINE,
    "reinstall_images": HERE,
    "reinstall_media_directory": HERE,
    "reinstall_media_netboot": HERE,
    "reinstall_mirror": MIRROR,
    "reinstall_network_files": HERE,
    "reinstall_packages": Form(r"[a-z0-9][a-z0-9.+-]+", "a package's name"),
    "reinstall_security_mirror": MIRROR,
    "reinstall_system": NAME,
    "reinstall_unsigned": NAME,
    "rollout_batch": SHARE,
    "rollout_canary": LINE,
    "rollout_directory": HERE,
    "rollout_freeze.from": MOMENT,
    "rollout_freeze.reason": LINE,
    "rollout_freeze.to": MOMENT,
    "rollout_freeze_file": HERE,
    "rollout_out_at_once": SHARE,
    "rollout_reason": LINE,
    "secure_boot_mok_password": Form(r"[!-~]{8,256}", "8 to 256 characters of ASCII, no blanks", 256, secret=True),
    "slurm_cluster": Form(r"[a-z0-9][a-z0-9_-]{0,39}", "a name of small letters, digits and '_-'"),
    "slurm_controller": LINE,
    "slurm_interactive.time": SLURM_TIME,
    "slurm_munge_key": Form(r"[A-Za-z0-9+/]+={0,2}", "a key in Base64", 2048, secret=True),
    "slurm_reservations.duration": SLURM_TIME,
    "slurm_reservations.groups": PERSON,
    "slurm_reservations.name": Form(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}", "a name of letters, digits and '_.-'"),
    "slurm_reservations.nodes": HOST,
    "slurm_reservations.start": Form(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", "a time as 2026-12-01T08:00:00"),
    "slurm_reservations.users": PERSON,
    "slurm_settings": Form(
        words="names of slurm.conf's settings, without the lines of nodes, partitions and further files",
        entries=((r"(?i:(?!(nodename|nodeset|partitionname|downnodes|include)$)[a-z0-9]+)", SLURM_VALUE),),
    ),
    "slurm_shares": Form(
        words="names of users_groups", entries=((PERSON.pattern, Form(r"[1-9]\d{0,5}", "a whole number from 1 on")),)
    ),
    "slurm_state": Form(choices=("present", "absent")),
    "slurm_time_default": SLURM_TIME,
    "slurm_time_limit": SLURM_TIME,
    "storage_tiers.blank_checked": Form(r"[A-Za-z0-9/][A-Za-z0-9/_.:=+@\\-]*", "a disk's serial number"),
    "storage_tiers.devices": Form(r"[A-Za-z0-9/][A-Za-z0-9/_.:=+@\\-]*", "a disk's serial number, path or UUID=..."),
    "storage_tiers.export_options": Form(r"[a-z_]+(=[A-Za-z0-9_:.-]+)?", "an option of an export"),
    "storage_tiers.export_to": Form(r"[@A-Za-z0-9*?:][A-Za-z0-9*?._:/-]*", "a host, network, pattern or netgroup"),
    "storage_tiers.filesystem": Form(r"[a-z0-9_.]+", "the name of a filesystem, such as ext4"),
    "storage_tiers.mount": Form(
        r"(/[A-Za-z0-9_][A-Za-z0-9_.-]*)+", "an absolute path of letters, digits and '_.-', without '..'", 1024
    ),
    "storage_tiers.name": Form(r"[a-z0-9][a-z0-9_-]{0,30}", "at most 31 small letters, digits, '_' and '-'"),
    "storage_tiers.nfs": Form(r"[A-Za-z0-9_\[][A-Za-z0-9.:_\[\]-]*:/[^\s\\\"]*", "an export, as server:/path", 1024),
    "storage_tiers.options": Form(r"(?!-)[^\s,#\\\"]+", "one option of a mount"),
    "tensorrt_version": VERSION,
    "tuning_overrides": Form(
        words="names of sysctls and of records in catalog/tuning.yml",
        entries=(
            ("[a-z][a-z0-9_]*", replace(TUNED, nullable=True)),
            (SYSCTL, Form(r"\S(.*\S)?", LINE.words, 1024, nullable=True)),
        ),
    ),
    "tuning_swap": Form(
        r"UUID=[0-9A-Fa-f-]+|(/[A-Za-z0-9_][A-Za-z0-9_.:=+-]*)+",
        "the path of a file, UUID=..., or a path in /dev/disk/by-id, by-partuuid or by-uuid",
        1024,
    ),
    "usage_currency": Form(r"\w{1,10}|[€£¥$]", "a currency, such as EUR"),
    "usage_directory": HERE,
    "usage_month": Form(r"\d{4}-(0[1-9]|1[0-2])", 'a month, such as "2026-11"'),
    "usage_prometheus_url": Form(
        r"https?://\S*[^\s/]", "an address such as http://prometheus.lab:9090", 2048, secret=True
    ),
    "usage_time_zone": Form(r"[A-Za-z][A-Za-z0-9_+/-]*", "a time zone, such as Europe/Berlin"),
    "users_directories.group": PERSON,
    "users_directories.path": PLACE,
    "users_directories.space": ROOM,
    "users_groups.name": PERSON,
    "users_homes": PLACE,
    "users_limits.memory": Form(r"[1-9]\d{0,9}[KMGT]?|([1-9]\d?|100)%", "a size such as 64G, or a share such as 25%"),
    "users_people.groups": PERSON,
    "users_people.heir": PERSON,
    "users_people.keys": PUBLIC_KEY,
    "users_people.mail": MAIL,
    "users_people.name": PERSON,
    "users_people.quota": ROOM,
    "users_people.until": DAY,
    "users_quota.space": ROOM,
    "verify_baseline": HERE,
    "verify_own_checks": HERE,
    "verify_container_image": Form(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*", "the name of an image"),
    "verify_hosts": LINE,
    "verify_mounts.path": ANY_PLACE,
    "verify_profile": Form(words="names", entries=((".+", NESTED),)),
    "verify_python": INTERPRETER,
    "verify_history_directory": HERE,
    "verify_report_directory": HERE,
    "work_images_absent": NAME,
    "work_images_directory": PLACE,
    "work_images_list.digest": Form(r"[a-z0-9]+:?[A-Za-z0-9]*", "sha256: and 64 hexadecimal digits", 128),
    "work_images_list.driver": VERSION,
    "work_images_list.name": Form(r"[A-Za-z0-9][A-Za-z0-9_.-]*", "a name of letters, digits and '_.-'", 64),
    "work_images_list.source": Form(
        rf"docker://[A-Za-z0-9.-]+(:\d+)?(/[a-z0-9_.-]+)+|{PLACE.pattern}",
        "docker://SERVER/IMAGE without a tag, or an absolute path",
        1024,
    ),
    "work_images_list.test": Form(r"[A-Za-z0-9_/][A-Za-z0-9_./+-]*", "a program, without arguments", 1024),
}
