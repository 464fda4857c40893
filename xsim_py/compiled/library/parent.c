/* The simulator's side: give the turn to a program and wait until it comes back. */
#define _GNU_SOURCE
#include "page.h"

#include <errno.h>
#include <linux/futex.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SHARED = 3 }; /* the descriptor of the page in the program */
enum { XSIM_CALLED, XSIM_OUTPUT, XSIM_ENDED, XSIM_INTERRUPTED, XSIM_COMPUTES };

struct xsim_child {
  struct xsim_page *page;
  int pid, out, err; /* the descriptors are the ends of pipes */
  int cpu;           /* on which it runs, -1: on any */
};

static cpu_set_t every; /* the processors that the simulator may use */
static int own = -1;    /* that of the thread that serves the programs, while it is bound */
static long look_ns;    /* when to look again whether another would be better */
static long switches;

static void bind_to(int pid, int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  sched_setaffinity(pid, sizeof one, &one);
}

/* Return the processor with most idle time since the last call, if it was idle for more than a third of it. */
static int idlest(long interval_ns) {
  static long before[CPU_SETSIZE];
  long best_ns = interval_ns / 3;
  int best = -1, cpu;
  char line[256];
  FILE *file = fopen("/proc/stat", "r");
  if (!file) return -1;
  while (fgets(line, sizeof line, file)) {
    long user, nice, system, idle;
    if (sscanf(line, "cpu%d %ld %ld %ld %ld", &cpu, &user, &nice, &system, &idle) != 5 || cpu >= CPU_SETSIZE) continue;
    long idle_ns = (idle - before[cpu]) * (1000000000 / sysconf(_SC_CLK_TCK));
    before[cpu] = idle;
    if (CPU_ISSET(cpu, &every) && idle_ns > best_ns) best = cpu, best_ns = idle_ns;
  }
  fclose(file);
  return best;
}

/* Bind this thread to a processor; where others want it, too, move to one that is idle. */
static void settle(void) {
  enum { INTERVAL_NS = 200000000 };
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  long now_ns = t.tv_sec * 1000000000L + t.tv_nsec;
  if (own >= 0 && now_ns < look_ns) return;
  struct rusage used;
  getrusage(RUSAGE_THREAD, &used);
  int best = own < 0 || used.ru_nivcsw - switches > INTERVAL_NS / 20000000 ? idlest(INTERVAL_NS) : -1;
  if (own < 0) sched_getaffinity(0, sizeof every, &every), best = sched_getcpu();
  if (best >= 0) bind_to(0, own = best);
  look_ns = now_ns + INTERVAL_NS;
  switches = used.ru_nivcsw;
}

static void follow(struct xsim_child *c) {
  settle();
  if (c->cpu != own) bind_to(c->pid, c->cpu = own);
}

/* Let this thread run on any processor again, at the end of a run. */
void xsim_unbind(void) {
  if (own >= 0) sched_setaffinity(0, sizeof every, &every);
  own = -1;
}

static int has_output(struct xsim_child *c) {
  struct pollfd ends[2] = {{c->out, POLLIN, 0}, {c->err, POLLIN, 0}};
  return poll(ends, 2, 0) > 0 && ((ends[0].revents | ends[1].revents) & POLLIN);
}

/* Wait until the program has called, written while it computes, or ended; with `hurries`, until it has computed for a
   while, and let it do so on any processor. */
static int await_call(struct xsim_child *c, int hurries) {
  struct xsim_page *p = c->page;
  for (long wait_ns = hurries ? 100000 : 500000;; wait_ns = wait_ns < 50000000 ? 2 * wait_ns : wait_ns) {
    struct timespec wait = {0, wait_ns};
    if (__atomic_load_n(&p->turn, __ATOMIC_ACQUIRE) == XSIM_SIMULATOR) break;
    if (syscall(SYS_futex, &p->turn, FUTEX_WAIT, XSIM_PROGRAM, &wait, NULL, 0) == 0 || errno == EAGAIN) continue;
    if (errno == EINTR) return XSIM_INTERRUPTED;
    siginfo_t info = {.si_pid = 0};
    if (has_output(c)) return XSIM_OUTPUT;
    if (waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid) return XSIM_ENDED;
    if (hurries) {
      sched_setaffinity(c->pid, sizeof every, &every);
      c->cpu = -1;
      return XSIM_COMPUTES;
    }
  }
  if (!p->is_heard) return XSIM_CALLED;
  if (p->is_heard == 1) p->is_heard = 0;
  return has_output(c) ? XSIM_OUTPUT : XSIM_CALLED;
}

/* Let a program continue. It runs on the processor of this thread, which waits for it: to wake one on another, which
   sleeps, takes several times as long. */
void xsim_give(struct xsim_child *c) {
  follow(c);
  __atomic_store_n(&c->page->turn, XSIM_PROGRAM, __ATOMIC_RELEASE);
  syscall(SYS_futex, &c->page->turn, FUTEX_WAKE, 1, NULL, NULL, 0);
}

int xsim_wait(struct xsim_child *c) { return await_call(c, 0); }
int xsim_wait_hurrying(struct xsim_child *c) { return await_call(c, 1); }

int xsim_exchange(struct xsim_child *c) {
  xsim_give(c);
  return await_call(c, 0);
}

int xsim_exchange_hurrying(struct xsim_child *c) {
  xsim_give(c);
  return await_call(c, 1);
}

/* Read or write memory of the program; return the number of bytes, or -1. */
long xsim_peek(struct xsim_child *c, void *to, uint64_t from, uint64_t size) {
  struct iovec here = {to, size}, there = {(void *)from, size};
  return process_vm_readv(c->pid, &here, 1, &there, 1, 0);
}

long xsim_poke(struct xsim_child *c, const void *from, uint64_t to, uint64_t size) {
  struct iovec here = {(void *)from, size}, there = {(void *)to, size};
  return process_vm_writev(c->pid, &here, 1, &there, 1, 0);
}

/* Write the bytes that differ; return 0, or -1 if an address is bad. */
int xsim_change(struct xsim_child *c, const char *old, char *new, uint64_t to, uint64_t size) {
  enum { MOST = 64 };
  struct iovec here[MOST], there[MOST];
  int runs = 0;
  long bytes = 0;
  for (uint64_t i = 0; i < size;) {
    while (i < size && old[i] == new[i]) i++;
    uint64_t first = i;
    while (i < size && old[i] != new[i]) i++;
    if (i > first) {
      here[runs] = (struct iovec){new + first, i - first};
      there[runs++] = (struct iovec){(void *)(to + first), i - first};
      bytes += i - first;
    }
    if (runs == MOST || (i == size && runs)) {
      if (process_vm_writev(c->pid, here, runs, there, runs, 0) != bytes) return -1;
      runs = bytes = 0;
    }
  }
  return 0;
}

/* Return a descriptor of this process for one of the program; -1 if there is none. */
int xsim_descriptor(struct xsim_child *c, int number) {
  int process = (int)syscall(SYS_pidfd_open, c->pid, 0);
  int found = (int)syscall(SYS_pidfd_getfd, process, number, 0);
  close(process);
  return found;
}

int xsim_has_output(int end) {
  struct pollfd one = {end, POLLIN, 0};
  return poll(&one, 1, 0) > 0;
}

static int is_fixed;

int xsim_is_fixed(void) { return is_fixed; }

/* Start a program in a directory; return 0 or an error number. Without standard input it reads from /dev/null. */
int xsim_start(int *pid, char **words, char **variables, const char *folder, int page, int out, int err, int no_input) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t how;
  sigset_t every, none;
  char shared[32];
  int count = 0;
  while (variables[count]) count++;
  char **all = malloc((size_t)(count + 2) * sizeof *all);
  if (!all) return ENOMEM;
  memcpy(all, variables, (size_t)count * sizeof *all);
  snprintf(shared, sizeof shared, "XSIM_PAGE=%d,%d", SHARED, (int)getpid());
  all[count] = shared;
  all[count + 1] = NULL;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&how);
  posix_spawn_file_actions_addchdir_np(&files, folder);
  if (no_input) posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, out, 1);
  posix_spawn_file_actions_adddup2(&files, err, 2);
  posix_spawn_file_actions_adddup2(&files, page, SHARED);
  sigfillset(&every);
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(&how, &every);
  posix_spawnattr_setsigmask(&how, &none);
  posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  int before = personality(0xffffffff); /* the same addresses in all processes of a program, and in each run */
  is_fixed = personality((unsigned)before | ADDR_NO_RANDOMIZE) != -1;
  int error = posix_spawn(pid, words[0], &files, &how, words, all);
  if (is_fixed) personality((unsigned)before);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&how);
  free(all);
  return error;
}
