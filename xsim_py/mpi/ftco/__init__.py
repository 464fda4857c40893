"""FTCO: collective operations over trees that detect failures themselves and overcome them.

Margolin and Barak, "Tree-Based Fault-Tolerant Collective Operations for MPI". One node's part is a state machine
without I/O (`node.Node`): it is told of arrivals, deaths and time, and says what to send. It runs collectives of the
simulated MPI library (`driver`), and the paper's formal model in steps (`xsim_py.ftco`).
"""
