/* The program's side of a call of the simulator (see page.h), and what the program's process does at its start and end.

   Loaded before all other libraries (LD_PRELOAD), so that the functions of the C library that it defines take precedence.
   Without the variable XSIM_PAGE, i.e. outside a run, it does nothing.

   In a fast program (XSIM_FAST, see fast_program.c), the stack is switched in place of the process. */
#define _GNU_SOURCE
#include "runtime.h"
#include "numbers.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#ifdef XSIM_FAST
#include "fast_program.h"
#endif

struct xsim_page *xsim_page;
XSIM_THREAD void *xsim_site;
static XSIM_THREAD int is_inside; /* a call of the simulator, and outside of its callbacks */
static struct call_back *innermost; /* the callback in progress; a long jump may have left its frame */
struct call_back {
  struct call_back *outer;
  const void *thread; /* the address of a variable of its own */
  uint32_t depth;
};

static const void *main_thread; /* like that of a callback */

int xsim_is_inside(void) { return is_inside; }
int xsim_is_main_thread(void) { return !main_thread || main_thread == &is_inside; }

#ifdef XSIM_FAST
static void give_turn(struct xsim_page *p) {
  (void)p;
  xsim_host->leave();
}
static void lock(void) {}
static void unlock(void) {}
static void await_inner(struct call_back *own) { (void)own; }
static void announce_return(void) {}
#else
static int64_t apart_ns; /* processor time at the start and in calls, which is not the program's */
static pthread_mutex_t one_call = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

static void lock(void) { pthread_mutex_lock(&one_call); }
static void unlock(void) { pthread_mutex_unlock(&one_call); }
/* The simulator has a stack of callbacks, so that of another thread which began later ends before. */
static pthread_cond_t has_returned = PTHREAD_COND_INITIALIZER;
static void await_inner(struct call_back *own) {
  while (innermost != own) pthread_cond_wait(&has_returned, &one_call);
}
static void announce_return(void) { pthread_cond_broadcast(&has_returned); }
static void forget_page(void) { xsim_page = NULL; }

static int64_t processor_ns(void) {
  struct timespec t;
  syscall(SYS_clock_gettime, CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void give_turn(struct xsim_page *p) {
  if (p->is_timed) p->cpu_ns = processor_ns() - apart_ns;
  __atomic_store_n(&p->turn, XSIM_SIMULATOR, __ATOMIC_RELEASE);
  syscall(SYS_futex, &p->turn, FUTEX_WAKE, 1, NULL, NULL, 0);
  while (__atomic_load_n(&p->turn, __ATOMIC_ACQUIRE) != XSIM_PROGRAM)
    syscall(SYS_futex, &p->turn, FUTEX_WAIT, XSIM_SIMULATOR, NULL, NULL, 0);
  for (char *at = p->patch, *end = at + p->patches; at < end;) {
    uint64_t head[2];
    memcpy(head, at, sizeof head);
    memcpy((void *)head[0], at + sizeof head, head[1]);
    at += sizeof head + (head[1] + 7) / 8 * 8;
  }
  if (p->is_timed) apart_ns = processor_ns() - p->cpu_ns;
}
#endif

static uint32_t depth(void) { return innermost ? innermost->depth : 0; }

/* Other threads may call the simulator meanwhile: the callback may wait for one, as Python's does for the lock of the
   interpreter. */
static void call_back(struct xsim_page *p) {
  int64_t given[XSIM_MOST_ARGUMENTS];
  memcpy(given, p->arguments, sizeof given);
  uint32_t kind = p->function;
  uint64_t function = p->site;
  struct call_back own = {innermost, &is_inside, depth() + 1};
  innermost = &own;
  is_inside = 0;
  unlock();
  int64_t result = xsim_call_back(kind, function, given);
  lock();
  await_inner(&own);
  is_inside = 1;
  innermost = own.outer;
  announce_return();
  memcpy(p->arguments, given, sizeof given);
  p->returned = result;
}

int64_t xsim_call(uint32_t function, int count, const int64_t *arguments, void *site) {
  static const struct xsim_data none = {NULL, -1, NULL, -1, NULL};
  return xsim_call_with(function, count, arguments, site, &none);
}

int xsim_ahead(struct xsim_queued *call, const void *data) {
  static uint32_t requests; /* their handles are above those that the simulator assigns, and fit into an MPI_Fint */
  struct xsim_page *p = xsim_page;
  if (!p || !p->is_ahead || innermost || call->sent < 0) return 0;
  call->bytes = (uint32_t)(sizeof *call + (size_t)(call->sent + 7) / 8 * 8);
  if (call->sent > XSIM_QUEUE_BYTES / 8) return 0;
  lock();
  int fits = p->queued + call->bytes <= XSIM_QUEUE_BYTES;
  if (fits) {
    call->request = 1 << 30 | (requests++ & ((1 << 30) - 1));
    if (xsim_site) call->site = (uint64_t)xsim_site;
    memcpy(p->queue + p->queued, call, sizeof *call);
    memcpy(p->queue + p->queued + sizeof *call, data, (size_t)call->sent);
    p->queued += call->bytes;
  }
  unlock();
  return fits;
}

void xsim_flush(void) {
  if (xsim_page && xsim_page->queued) xsim_call(XSIM_FLUSH, 0, NULL, __builtin_return_address(0));
}

/* Enter the simulator, and return the result of the call; run the callbacks that it asks for meanwhile. */
int64_t xsim_call_with(uint32_t function, int count, const int64_t *arguments, void *site, const struct xsim_data *data) {
  struct xsim_page *p = xsim_page;
  if (!p) {
    if (function == XSIM_INITIALIZED || function == XSIM_FINALIZED) { /* build systems load libraries that ask */
      *(int *)(uintptr_t)arguments[0] = 0;
      return 0; /* MPI_SUCCESS */
    }
    static const char text[] = "this program calls MPI: run it with xsim run -n N PROGRAM\n";
    if (write(2, text, sizeof text - 1)) {}
    _exit(2);
  }
  int saved = errno;
  lock();
  if (function == XSIM_INIT || function == XSIM_INIT_THREAD) main_thread = &is_inside;
  /* A longjmp out of a callback has left it for good. */
  while (innermost && innermost->thread == &is_inside && (char *)&p >= (char *)innermost) {
    innermost = innermost->outer;
    announce_return();
  }
  p->request = XSIM_CALL;
  p->function = function;
  p->site = (uint64_t)(xsim_site ? xsim_site : site);
  xsim_site = NULL;
  if (count) memcpy(p->arguments, arguments, (size_t)count * sizeof *arguments);
  p->sent = p->capacity = -1;
  if (data->sent_bytes >= 0 && data->sent_bytes <= XSIM_PAYLOAD_BYTES) {
    memcpy(p->payload, data->sent, (size_t)data->sent_bytes);
    p->sent = (int32_t)data->sent_bytes;
  }
  if (data->capacity >= 0 && data->capacity <= XSIM_PAYLOAD_BYTES) p->capacity = (int32_t)data->capacity;
  is_inside = 1;
  for (;;) {
    p->reply = p->patches = p->is_told = 0;
    p->depth = depth();
    p->result = 0;
    p->received = -1;
    give_turn(p);
    if (p->reply == XSIM_RETURN) break;
    if (p->reply == XSIM_CALLBACK)
      call_back(p);
    else if (p->reply == XSIM_OBTAIN)
      p->returned = (int64_t)calloc(1, (size_t)p->arguments[0]);
    else
      free((void *)p->arguments[0]);
    p->request = XSIM_RETURNED;
  }
  if (p->received >= 0) {
    if (data->received) memcpy(data->received, p->payload, (size_t)p->received);
    if (data->status) {
      int *fields = data->status;
      int64_t size = p->received;
      fields[0] = p->source;
      fields[1] = p->tag;
      fields[3] = 0;
      memcpy(&fields[4], &size, sizeof size);
    }
  }
  int64_t result = p->result;
  is_inside = 0;
  unlock();
  errno = saved;
  return result;
}

#ifndef XSIM_FAST

/* This library is initialised before all others (-z initfirst), so that C++ finds the streams of output.c; the C library
   has no environment yet. */
__attribute__((constructor(101))) static void begin(int argc, char **argv, char **variables) {
  (void)argc;
  (void)argv;
  environ = variables;
  const char *shared = getenv("XSIM_PAGE");
  if (!shared) return;
  char *rest;
  int file = (int)strtol(shared, &rest, 10), parent = atoi(rest + 1);
  void *found = mmap(NULL, XSIM_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  const char *before = getenv("XSIM_PRELOAD_BEFORE"); /* what the program's own processes inherit */
  if (before && *before) setenv("LD_PRELOAD", before, 1); else unsetenv("LD_PRELOAD");
  unsetenv("XSIM_PRELOAD_BEFORE");
  unsetenv("XSIM_PAGE");
  setenv("GFORTRAN_UNBUFFERED_PRECONNECTED", "y", 0); /* or what it prints would appear at its end */
  if (found == MAP_FAILED) _exit(126);
  madvise(found, XSIM_PAGE_BYTES, MADV_DONTFORK);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(126); /* the simulator has ended before that */
  apart_ns = processor_ns();
  xsim_page = found;
  pthread_atfork(NULL, NULL, forget_page);
}

__attribute__((destructor(101))) static void end(void) {
  struct xsim_page *p = xsim_page;
  if (!p) return;
  fflush(NULL);
  if (p->is_timed) p->cpu_ns = processor_ns() - apart_ns;
  p->request = XSIM_ENDING;
  __atomic_store_n(&p->turn, XSIM_SIMULATOR, __ATOMIC_RELEASE);
  forget_page();
  syscall(SYS_futex, &p->turn, FUTEX_WAKE, 1, NULL, NULL, 0);
}
#endif
