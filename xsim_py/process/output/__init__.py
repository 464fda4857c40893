"""What ranks print, in the order of virtual time: collected, kept, and written once equal tracebacks are found."""
