"""Where a run runs: the plan of it, the work on one shard, and the loop and threads around."""
