"""The pytest plugin runs tests of MPI code on virtual ranks; see `plugin` and `markers`."""
