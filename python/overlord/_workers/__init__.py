"""What runs in processes beside the engine: tokenizers, chat templates and users' transforms.

The scripts among them are started by path; nothing of the package is imported before they say so.
"""
