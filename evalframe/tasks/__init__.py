"""From a dataset row to its output: the task."""
