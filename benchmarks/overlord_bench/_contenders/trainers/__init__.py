"""Contenders of the bench `trainers`."""
