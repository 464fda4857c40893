"""Messages between ranks: matching, the eager and rendezvous protocols, and the links that they use."""
