"""Pages for a browser: one of a run, of a comparison, of ways to recover. They need no network and no other file."""
