"""What a placement would do to a job of any size: metadata in, step times and bytes out."""
