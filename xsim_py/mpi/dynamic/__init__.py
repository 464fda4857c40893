"""Dynamic processes: spawning, and connections between processes (MPI 4.1, chapter 11)."""
