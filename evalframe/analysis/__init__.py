"""Reading results: scores, summaries and failures of a frame."""
