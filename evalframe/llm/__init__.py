"""A model: how it is named, asked, kept within its limits, and what its replies must be."""
