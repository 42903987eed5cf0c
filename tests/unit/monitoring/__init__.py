"""What lets Prometheus watch a node: facts, plan, collector, alert rules, dashboard."""
