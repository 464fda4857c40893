"""Processes that are started while others run, and how they meet: MPI 4.1, chapter 11."""
