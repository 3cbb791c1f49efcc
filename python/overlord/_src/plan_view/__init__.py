"""Plans in a form that people and programs read."""
