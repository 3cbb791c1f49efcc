"""Indexes of sources: built, found, checked, and what they know."""
