"""Reading a job's config: YAML text, substitution, overrides, checks (models: overlord.config)."""
