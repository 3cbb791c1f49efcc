"""The trainer of `overlord bench recovery`."""
