"""What stands between the loader and trainers of others."""
