"""What `overlord.ray` does: actors that hold hosts and the keeper of a job."""
