/* Output of the program: before it is written, calls that are queued are carried out, so that it appears after them. */
#define _GNU_SOURCE
#include "runtime.h"

#include <dlfcn.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static void note(uint32_t who) {
  if (xsim_page && xsim_page->is_heard < who) xsim_page->is_heard = who;
}

void xsim_before_output(int file) {
  if (file != 1 && file != 2) return;
  xsim_flush();
  note(1);
}

static ssize_t write_all(void *file, const char *data, size_t size) {
  return write((int)(long)file, data, size);
}

/* Processes that the program starts write to the same pipes. */
#define STARTING(type, name, parameters, ...) \
  type name parameters { \
    xsim_flush(); \
    note(2); \
    return REAL(name, __VA_ARGS__); \
  }
STARTING(int, system, (const char *command), command)
STARTING(FILE *, popen, (const char *command, const char *mode), command, mode)
STARTING(int, posix_spawn, (pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                            const posix_spawnattr_t *how, char *const words[], char *const variables[]),
         pid, file, actions, how, words, variables)
STARTING(int, posix_spawnp, (pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                             const posix_spawnattr_t *how, char *const words[], char *const variables[]),
         pid, file, actions, how, words, variables)

static void before_fork(void) {
  xsim_flush();
  note(2);
}

static FILE *out, *err;

/* The streams below have descriptors, or CPython takes them for closed. */
int fileno(FILE *stream) {
  if (stream && (stream == out || stream == err)) return stream == out ? 1 : 2;
  int ours = xsim_file_of(stream);
  return ours >= 0 ? ours : REAL(fileno, stream);
}
int fileno_unlocked(FILE *stream) { return fileno(stream); }

/* The streams of the C library call no function of ours, so they are replaced by ones that do. */
__attribute__((constructor(102))) static void replace_streams(void) {
  cookie_io_functions_t functions = {.write = write_all};
  if (!xsim_page) return;
  pthread_atfork(before_fork, NULL, NULL);
  out = fopencookie((void *)1L, "w", functions);
  err = fopencookie((void *)2L, "w", functions);
  if (!out || !err) return;
  setvbuf(out, NULL, _IOLBF, BUFSIZ);
  setvbuf(err, NULL, _IONBF, 0);
  stdout = out;
  stderr = err;
}
