"""Programs and their modules: found, compiled once, and executed for each rank by itself."""
