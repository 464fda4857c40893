"""Virtual ranks and their scheduling: fibers, shards and the state swapped between ranks."""
