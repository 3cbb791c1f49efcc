"""What stands in the way of a run, found before it: host, node and indexes."""
