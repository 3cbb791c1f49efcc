"""Ours, as `overlord bench scaling` runs it."""
