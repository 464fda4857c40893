#ifndef XSIM_FAST_PROGRAM_H
#define XSIM_FAST_PROGRAM_H
#define _GNU_SOURCE
#include "fast.h"
#include "runtime.h"

extern const struct xsim_host *xsim_host;
extern struct xsim_memory xsim_memory;
_Noreturn void xsim_end(int status); /* a negative status is the number of a signal */
#endif
