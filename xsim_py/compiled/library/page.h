/* The page that a compiled program shares with the simulator: whose turn it is, a call, and its reply. */
#ifndef XSIM_PAGE_H
#define XSIM_PAGE_H
#include <stdint.h>

enum { XSIM_PROGRAM, XSIM_SIMULATOR };             /* `turn` */
enum { XSIM_CALL, XSIM_RETURNED, XSIM_ENDING };    /* `request`, by the program */
enum { XSIM_RETURN, XSIM_CALLBACK, XSIM_OBTAIN, XSIM_RELEASE }; /* `reply`, by the simulator */
/* `number` of calls that are not of MPI, see system.py */
enum xsim_service { XSIM_CLOCK = 0x8000, XSIM_SLEEP, XSIM_IDENTITY, XSIM_ENTROPY, XSIM_WORK, XSIM_CONTROL };
enum { XSIM_MOST_ARGUMENTS = 20, XSIM_PATCHES = 60 << 10, XSIM_PAGE_BYTES = 64 << 10 };

struct xsim_page {
  uint32_t turn;      /* a futex */
  uint32_t request;
  uint32_t reply;
  uint32_t number;    /* of the function, see calls.c, or of the kind of callback */
  uint32_t large;     /* 1: the function with large counts, `_c` */
  uint32_t depth;     /* of callbacks that have not returned */
  uint64_t site;      /* the return address of the call */
  int64_t cpu_ns;     /* processor time of the program's process */
  int64_t result;
  int64_t arguments[XSIM_MOST_ARGUMENTS];
  /* the reply */
  uint64_t function;  /* to call back */
  uint32_t is_timed;  /* whether `cpu_ns` is wanted */
  uint32_t patches;   /* bytes in `patch`: writes into the program's memory, each an address, a size, and data */
  double now_s;       /* virtual time */
  int64_t now_ns;
  char patch[XSIM_PATCHES];
};
#endif
