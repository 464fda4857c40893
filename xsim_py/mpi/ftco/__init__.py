"""FTCO: collective operations that detect failures themselves and overcome them, over trees or by recursive doubling.

Margolin and Barak, "Tree-Based Fault-Tolerant Collective Operations for MPI". One node's part is a state machine
without I/O (`node.TreeNode`): it is told of arrivals, deaths and time, and says what to send. It runs collectives of
the simulated MPI library (`driver`), and the paper's formal model in steps (`xsim_py.ftco`).
"""
