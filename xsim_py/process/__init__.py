"""Floor 4, the virtual processes: one greenlet is one rank, kept apart from the others and from this computer."""
