"""Guards of a watched run of several ranks: replicas, data, collectives, hangs."""
