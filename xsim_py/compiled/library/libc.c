/* The functions of the C library that are virtual in a run, as for a rank in Python: clocks, sleeping, process ID and
   node, entropy. Without a page (outside a run, in forked processes), each is the real one.

   A clock that is read a few times at one moment shows the time of the last reply, without a call of the simulator. */
#define _GNU_SOURCE
#include "runtime.h"
#include "mpi.h"
#include "xsim.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>


enum { PATIENCE = 1000 }; /* readings at one time that cost nothing, see clock.py */
static const int64_t epoch_s = 1577836800, second_ns = 1000000000; /* rank.py */

static int64_t call(enum xsim_service number, int64_t first, int64_t second, void *site) {
  int64_t given[] = {first, second};
  return xsim_call(number, 2, given, site);
}

/* ----------------------------------------------------------------------------------------------------------- clocks */

static void read_clock(struct xsim_page *p, void *site) {
  static double at = -1;
  static int64_t readings;
  if (!xsim_is_inside()) {
    xsim_flush();
    if (!p->is_told) call(XSIM_CLOCK, 1, 0, site);
  }
  if (at != p->now_s) {
    at = p->now_s;
    readings = 0;
  }
  readings++;
  if ((p->is_timed || readings > PATIENCE) && !xsim_is_inside()) {
    call(XSIM_CLOCK, readings, 0, site);
    at = p->now_s; /* the reading may have taken time */
  }
}

static int is_of_day(clockid_t id) {
  return id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE || id == CLOCK_REALTIME_ALARM || id == CLOCK_TAI;
}

static int64_t now_ns(clockid_t id, void *site) {
  struct xsim_page *p = xsim_page;
  read_clock(p, site);
  return p->now_ns + (is_of_day(id) ? epoch_s * second_ns : 0);
}

static struct timespec of_ns(int64_t ns) { return (struct timespec){ns / second_ns, ns % second_ns}; }

static int is_time(const struct timespec *t) { return t->tv_sec >= 0 && t->tv_nsec >= 0 && t->tv_nsec < second_ns; }

/* As nanoseconds, the largest number if they are more. */
static int64_t in_ns(const struct timespec *t) {
  int64_t ns;
  if (__builtin_mul_overflow(L(t->tv_sec), second_ns, &ns) || __builtin_add_overflow(ns, t->tv_nsec, &ns))
    return INT64_MAX;
  return ns;
}

double PMPI_Wtime(void) {
  if (!xsim_page) return 0;
  read_clock(xsim_page, SITE);
  return xsim_page->now_s;
}
double MPI_Wtime(void) __attribute__((weak, alias("PMPI_Wtime")));
double PMPI_Wtick(void) { return 1e-12; }
double MPI_Wtick(void) __attribute__((weak, alias("PMPI_Wtick")));

int clock_gettime(clockid_t id, struct timespec *t) {
  if (!xsim_page || id < 0) return syscall(SYS_clock_gettime, id, t); /* negative: the clock of another process */
  *t = of_ns(now_ns(id, SITE));
  return 0;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
  if (!xsim_page) return syscall(SYS_gettimeofday, t, zone);
  int64_t ns = now_ns(CLOCK_REALTIME, SITE);
  *t = (struct timeval){ns / second_ns, ns % second_ns / 1000};
  if (zone) memset(zone, 0, sizeof(struct timezone));
  return 0;
}

time_t time(time_t *t) {
  if (!xsim_page) return REAL(time, t);
  time_t now = now_ns(CLOCK_REALTIME, SITE) / second_ns;
  if (t) *t = now;
  return now;
}

clock_t clock(void) {
  return xsim_page ? now_ns(CLOCK_PROCESS_CPUTIME_ID, SITE) / (second_ns / CLOCKS_PER_SEC) : REAL(clock);
}

int timespec_get(struct timespec *t, int base) {
  if (!xsim_page || base != TIME_UTC) return REAL(timespec_get, t, base);
  *t = of_ns(now_ns(CLOCK_REALTIME, SITE));
  return base;
}

/* --------------------------------------------------------------------------------------------------------- sleeping */

void xsim_sleep(int64_t ns, void *site) { call(XSIM_SLEEP, ns > 0 ? ns : 0, 0, site); }

static int sleep_ns(int64_t ns, void *site) { return xsim_sleep(ns, site), 0; }

unsigned sleep(unsigned s) { return xsim_page ? (unsigned)sleep_ns(s * second_ns, SITE) : REAL(sleep, s); }

int usleep(useconds_t us) { return xsim_page ? sleep_ns(us * 1000LL, SITE) : REAL(usleep, us); }

int nanosleep(const struct timespec *t, struct timespec *rest) {
  if (!xsim_page || !is_time(t)) return REAL(nanosleep, t, rest);
  return sleep_ns(in_ns(t), SITE);
}

int thrd_sleep(const struct timespec *t, struct timespec *rest) {
  if (!xsim_page || !is_time(t)) return REAL(thrd_sleep, t, rest);
  return sleep_ns(in_ns(t), SITE);
}

int clock_nanosleep(clockid_t id, int flags, const struct timespec *t, struct timespec *rest) {
  if (!xsim_page || id < 0 || !is_time(t)) return REAL(clock_nanosleep, id, flags, t, rest);
  return sleep_ns(in_ns(t) - (flags & TIMER_ABSTIME ? now_ns(id, SITE) : 0), SITE);
}

#ifdef XSIM_FAST /* others: sockets.c */
int poll(struct pollfd *ends, nfds_t count, int ms) {
  return xsim_page && !count && ms >= 0 ? sleep_ns(ms * 1000000LL, SITE) : REAL(poll, ends, count, ms);
}

int select(int count, fd_set *restrict in, fd_set *restrict out, fd_set *restrict bad, struct timeval *restrict t) {
  if (!xsim_page || !t || (count && (in || out || bad))) return REAL(select, count, in, out, bad, t);
  return sleep_ns(t->tv_sec * second_ns + t->tv_usec * 1000, SITE);
}
#endif

/* A wait for another thread takes real time: its end is that far from now on the real clock. */
static struct timespec real_end(const struct timespec *end) {
  clockid_t id = end->tv_sec >= epoch_s / 2 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
  struct timespec now;
  syscall(SYS_clock_gettime, id, &now);
  int64_t wait = in_ns(end) - xsim_page->now_ns - (is_of_day(id) ? epoch_s * second_ns : 0), till;
  return __builtin_add_overflow(in_ns(&now), wait, &till) ? *end : of_ns(till);
}

#define WAITING(name, parameters, end, ...) \
  int name parameters { \
    if (!xsim_page) return REAL(name, __VA_ARGS__); \
    struct timespec real = real_end(end); \
    end = &real; \
    return REAL(name, __VA_ARGS__); \
  }
typedef const struct timespec *end_time;
WAITING(pthread_cond_timedwait, (pthread_cond_t *c, pthread_mutex_t *m, end_time t), t, c, m, t)
WAITING(pthread_mutex_timedlock, (pthread_mutex_t *m, end_time t), t, m, t)
WAITING(pthread_rwlock_timedrdlock, (pthread_rwlock_t *l, end_time t), t, l, t)
WAITING(pthread_rwlock_timedwrlock, (pthread_rwlock_t *l, end_time t), t, l, t)
WAITING(sem_timedwait, (sem_t *s, end_time t), t, s, t)
#if __GLIBC_PREREQ(2, 30)
WAITING(pthread_cond_clockwait, (pthread_cond_t * c, pthread_mutex_t *m, clockid_t id, end_time t), t, c, m, id, t)
WAITING(pthread_mutex_clocklock, (pthread_mutex_t * m, clockid_t id, end_time t), t, m, id, t)
WAITING(sem_clockwait, (sem_t *restrict s, clockid_t id, end_time restrict t), t, s, id, t)
#endif

/* ------------------------------------------------------------------------------------------ process, node, entropy */

static struct {
  int64_t pid;
  char node[sizeof((struct utsname *)0)->nodename];
} self;

/* Ask once; is there an answer? */
static int is_known(void) {
  if (xsim_page && !self.pid && !xsim_is_inside()) call(XSIM_IDENTITY, L(&self), 0, SITE);
  return xsim_page && self.pid;
}

pid_t getpid(void) { return is_known() ? (pid_t)self.pid : (pid_t)syscall(SYS_getpid); }

#ifndef XSIM_FAST
/* As a rank in Python, it may send signals to itself and its children only. */
int kill(pid_t pid, int number) {
  siginfo_t found;
  if (!xsim_page) return syscall(SYS_kill, pid, number);
  pid_t own = (pid_t)syscall(SYS_getpid);
  if (pid == own || (is_known() && pid == self.pid)) return syscall(SYS_kill, own, number);
  if (pid > 0 && waitid(P_PID, (id_t)pid, &found, WEXITED | WNOHANG | WNOWAIT) == 0)
    return syscall(SYS_kill, pid, number);
  errno = EPERM;
  return -1;
}
#endif

int gethostname(char *name, size_t size) {
  if (!is_known()) return REAL(gethostname, name, size);
  strncpy(name, self.node, size);
  errno = ENAMETOOLONG;
  return strlen(self.node) < size ? 0 : -1;
}

int uname(struct utsname *found) {
  int result = REAL(uname, found);
  if (result == 0 && is_known()) memcpy(found->nodename, self.node, sizeof self.node);
  return result;
}

static int is_drawn(void *to, size_t size, void *site) {
  if (!xsim_page || xsim_is_inside()) return 0;
  call(XSIM_ENTROPY, L(to), L(size), site);
  return 1;
}

ssize_t getrandom(void *to, size_t size, unsigned flags) {
  return is_drawn(to, size, SITE) ? (ssize_t)size : (ssize_t)syscall(SYS_getrandom, to, size, flags);
}

int getentropy(void *to, size_t size) {
  return size <= 256 && is_drawn(to, size, SITE) ? 0 : REAL(getentropy, to, size);
}

#ifndef XSIM_FAST
/* std::random_device::operator() of libstdc++, which asks the processor. */
unsigned _ZNSt13random_device9_M_getvalEv(void *device);
unsigned _ZNSt13random_device9_M_getvalEv(void *device) {
  unsigned found;
  return is_drawn(&found, sizeof found, SITE) ? found : REAL(_ZNSt13random_device9_M_getvalEv, device);
}
#endif

#if __GLIBC_PREREQ(2, 36)
void arc4random_buf(void *to, size_t size) {
  if (!is_drawn(to, size, SITE)) REAL(arc4random_buf, to, size);
}

uint32_t arc4random(void) {
  uint32_t found;
  return is_drawn(&found, sizeof found, SITE) ? found : REAL(arc4random);
}
#endif

/* ----------------------------------------------------------------------------------------------------------- output */

/* Those of the C library do not call write(). */
int vdprintf(int file, const char *format, va_list values) {
  char *text;
  int size = vasprintf(&text, format, values);
  if (size < 0) return size;
  ssize_t done = write(file, text, (size_t)size);
  free(text);
  return (int)done;
}

int dprintf(int file, const char *format, ...) {
  va_list values;
  va_start(values, format);
  int size = vdprintf(file, format, values);
  va_end(values);
  return size;
}

/* ------------------------------------------------------------------------------------------------------ computation */

int PMPI_Pcontrol(const int level, ...) {
  int64_t flops, bytes;
  double given[2];
  if (!xsim_page) return MPI_SUCCESS;
  if (level != XSIM_WORK_LEVEL) return (int)call(XSIM_CONTROL, level, 0, SITE);
  va_list rest;
  va_start(rest, level);
  given[0] = va_arg(rest, double);
  given[1] = va_arg(rest, double);
  va_end(rest);
  memcpy(&flops, &given[0], sizeof flops);
  memcpy(&bytes, &given[1], sizeof bytes);
  return (int)call(XSIM_WORK, flops, bytes, SITE);
}
int MPI_Pcontrol(const int level, ...) __attribute__((weak, alias("PMPI_Pcontrol")));
