"""The output of ranks, in the order of virtual time: collected, kept, and written once equal tracebacks are found."""
