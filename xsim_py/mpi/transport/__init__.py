"""Messages between ranks: matching, the eager and rendezvous protocols, and the links on the way."""
