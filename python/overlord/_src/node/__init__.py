"""The node of a host as Python sees it: started, limited, watched, traced."""
