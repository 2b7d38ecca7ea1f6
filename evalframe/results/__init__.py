"""Rows out: cells into columns, frames into files."""
