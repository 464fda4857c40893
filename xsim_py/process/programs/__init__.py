"""Programs and their modules: found, compiled once, and executed separately for each rank."""
