"""One-sided communication: windows, epochs, and what their messages do where they arrive (MPI 4.1, chapter 12)."""
