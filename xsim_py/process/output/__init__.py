"""The output of ranks in virtual-time order: collected, spilled, and written with equal tracebacks merged."""
