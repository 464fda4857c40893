"""A virtual rank and its turns: fibers, shards, and what is swapped when another rank runs."""
