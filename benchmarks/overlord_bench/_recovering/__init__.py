"""What `overlord bench recovery` is made of."""
