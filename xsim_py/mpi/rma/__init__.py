"""One-sided communication: windows, epochs, and the effects of their messages (MPI 4.1, chapter 12)."""
