"""Let the tests import this checkout as ``ansible_collections.gpulab.node``."""

from pathlib import Path

from ansible.plugins.loader import init_plugin_loader

init_plugin_loader([str(Path(__file__).parents[1] / "collections")])
