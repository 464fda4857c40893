#ifndef XSIM_RUNTIME_H
#define XSIM_RUNTIME_H
#include "page.h"
#include <stdio.h>

/* Call the function of the C library that one of ours replaces; with dlfcn.h, and _GNU_SOURCE. */
#define REAL(name, ...) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))(__VA_ARGS__)
#define SITE __builtin_return_address(0)
#define L(value) ((int64_t)(value)) /* an argument of a call */

#ifdef XSIM_FAST /* in the process of the simulator: one thread, and variables are exchanged between ranks */
#define XSIM_THREAD
#else
#define XSIM_THREAD __thread
#endif

/* Data that go through the page with a call, in place of copies between processes. */
struct xsim_data {
  const void *sent;
  int64_t sent_bytes; /* -1: the simulator reads them itself */
  void *received;
  int64_t capacity;
  void *status; /* an MPI_Status, or NULL */
};

extern struct xsim_page *xsim_page; /* NULL outside a run, and in processes that the program forks */
extern XSIM_THREAD void *xsim_site;   /* where the program calls, if not where a function returns to; see fortran.h */
int xsim_is_inside(void);           /* whether the calling thread waits for the simulator, in a signal handler */
int xsim_is_main_thread(void);      /* whether the calling thread has called MPI_Init */
int xsim_tool(int error);           /* the result of a function of the tools interface, see local.c */
int xsim_no_tools(int *number);
int64_t xsim_call(uint32_t function, int count, const int64_t *arguments, void *site);
int64_t xsim_call_with(uint32_t function, int count, const int64_t *arguments, void *site, const struct xsim_data *data);
/* Queue a call that needs no answer, and return 1; return 0 if it has to be made at once. */
int xsim_ahead(struct xsim_queued *call, const void *data);
void xsim_sleep(int64_t ns, void *site); /* virtual time */
void xsim_flush(void); /* have what is queued carried out now */
void xsim_before_output(int file); /* before something is written to a descriptor */
int xsim_file_of(FILE *stream);    /* the descriptor of a stream of files.c, -1 for others */
int xsim_is_socket(int file);      /* whether other ranks may have the other end */
void xsim_await(int file, int events, int flags, void *site); /* wait until a call on a socket would not block */
ssize_t xsim_tell(int file, ssize_t done, void *site);        /* end such a call, and return its result */
int64_t xsim_call_back(uint32_t kind, uint64_t function, int64_t *arguments);
#endif
