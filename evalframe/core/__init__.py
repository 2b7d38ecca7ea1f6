"""What all parts stand on: errors, records, names, binding, lossless values, result columns."""
