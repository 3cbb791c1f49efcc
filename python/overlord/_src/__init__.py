"""Private modules of Overlord; the public face is `overlord` itself."""
