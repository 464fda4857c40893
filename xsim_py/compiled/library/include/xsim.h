/* What a compiled program can tell xsim_py. Under another MPI library, this has no effect. */
#ifndef XSIM_H
#define XSIM_H
#include <mpi.h>

/* Charge for a computation on the simulated processor: the longer of flops / compute.flops and bytes / compute.bandwidth
   of the machine passes, for its floating-point operations and the bytes that it moves from and to memory.
   Every library ignores levels of MPI_Pcontrol that it does not know (MPI 5.0, 15.2.4). */
#define xsim_work(flops, bytes) ((void)MPI_Pcontrol(XSIM_WORK_LEVEL, (double)(flops), (double)(bytes)))
#define XSIM_WORK_LEVEL (-0x7873)
#endif
