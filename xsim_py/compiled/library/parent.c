/* The simulator's side: give the turn to a program and wait until it comes back. */
#define _GNU_SOURCE
#include "page.h"

#include <errno.h>
#include <linux/futex.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SHARED = 3 }; /* the descriptor of the page in the program */
enum { XSIM_CALLED, XSIM_OUTPUT, XSIM_ENDED, XSIM_INTERRUPTED };

struct xsim_child {
  struct xsim_page *page;
  int pid, out, err; /* the descriptors are the ends of pipes */
};

static int has_output(struct xsim_child *c, int wait_ms) {
  struct pollfd ends[2] = {{c->out, POLLIN, 0}, {c->err, POLLIN, 0}};
  return poll(ends, 2, wait_ms) > 0 && ((ends[0].revents | ends[1].revents) & POLLIN);
}

/* Wait until the program has called, written while it computes, or ended; `give`: let it continue first. */
int xsim_exchange(struct xsim_child *c, int give) {
  struct xsim_page *p = c->page;
  if (give) {
    __atomic_store_n(&p->turn, XSIM_PROGRAM, __ATOMIC_RELEASE);
    syscall(SYS_futex, &p->turn, FUTEX_WAKE, 1, NULL, NULL, 0);
  }
  for (long wait_ns = 500000;; wait_ns = wait_ns < 50000000 ? 2 * wait_ns : wait_ns) {
    struct timespec wait = {0, wait_ns};
    if (__atomic_load_n(&p->turn, __ATOMIC_ACQUIRE) == XSIM_SIMULATOR) break;
    if (syscall(SYS_futex, &p->turn, FUTEX_WAIT, XSIM_PROGRAM, &wait, NULL, 0) == 0 || errno == EAGAIN) continue;
    if (errno == EINTR) return XSIM_INTERRUPTED;
    siginfo_t info = {.si_pid = 0};
    if (has_output(c, 0)) return XSIM_OUTPUT;
    if (waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid) return XSIM_ENDED;
  }
  return has_output(c, 0) ? XSIM_OUTPUT : XSIM_CALLED;
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

int xsim_has_output(int end) {
  struct pollfd one = {end, POLLIN, 0};
  return poll(&one, 1, 0) > 0;
}

void xsim_give(struct xsim_child *c) {
  __atomic_store_n(&c->page->turn, XSIM_PROGRAM, __ATOMIC_RELEASE);
  syscall(SYS_futex, &c->page->turn, FUTEX_WAKE, 1, NULL, NULL, 0);
}

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
  /* The same addresses in every run, where the kernel permits it. */
  int before = personality(0xffffffff);
  if (before != -1) personality((unsigned long)before | ADDR_NO_RANDOMIZE);
  int error = posix_spawn(pid, words[0], &files, &how, words, all);
  if (before != -1) personality((unsigned long)before);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&how);
  free(all);
  return error;
}
