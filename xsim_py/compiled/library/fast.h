/* What a fast program, which runs in the process of the simulator, and the simulator share besides the page. */
#ifndef XSIM_FAST_H
#define XSIM_FAST_H
#include "page.h"

#include <stddef.h>

/* Functions of the simulator for the program that runs. */
struct xsim_host {
  struct xsim_page *page;                                    /* one for all ranks, as one of them runs at a time */
  void (*leave)(void);                                       /* give the turn to the simulator until it comes back */
  void (*put)(int file, const char *data, size_t size);      /* write output */
  void (*drop)(void);                                        /* forget output that is in no stream's file yet */
  int (*stream)(const void *file);                           /* 1 for standard output, 2 for standard error, else 0 */
  void *(*map)(size_t size);                                 /* whole pages of memory of the rank, or NULL */
  void (*unmap)(void *address);
  char ***variables; /* environ of the C library */
};

/* What the simulator has to know of a program; see fast_program.c. */
struct xsim_program {
  uint64_t version;
  const struct xsim_host **host;
  void (*start)(void);
  struct xsim_memory *memory;
};

/* A rank's memory for small blocks, and its arguments; set before the start. */
struct xsim_memory {
  char *begin, *end;
  int argc, needs_variables; /* whether the program accesses environ itself */
  char **argv;
};
#endif
