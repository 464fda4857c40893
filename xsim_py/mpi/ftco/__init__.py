"""FTCO: collectives that detect failed ranks and route around them, by trees or doubling.

Margolin and Barak, "Tree-Based Fault-Tolerant Collective Operations for MPI". Each node runs a state machine without
I/O (`node.TreeNode`): its input is messages, failure notices and the time, its output is messages. It runs the
collectives of the simulated MPI library (`driver`) and the paper's formal model in steps (`xsim_py.ftco`).
"""
