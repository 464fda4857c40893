"""MPI-IO: views, data access, shared file pointers (MPI 4.1, chapter 14)."""
