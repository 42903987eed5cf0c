"""Keep the report of a node: the program of a connection to gpulab-watch-reports.socket."""

from ansible_collections.gpulab.node.plugins.module_utils.watch import reports

reports.receive()
