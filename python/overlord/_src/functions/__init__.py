"""Users' own Python functions: transforms, rules, costs and placements, and who calls them."""
