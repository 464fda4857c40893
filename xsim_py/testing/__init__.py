"""The plugin for pytest runs tests of MPI code on virtual ranks; see `plugin` for what a test says and asks for."""
