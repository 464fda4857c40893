/* Sockets between ranks: real ones. A call that would block lets other ranks run until the socket is ready, and they check
   theirs again after each operation, as for ranks in Python (process/descriptors/sockets.py). Sockets of socketpair, and
   those that other threads than the first one use, are the process's own: calls on them block. */
#define _GNU_SOURCE
#include "runtime.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int are_used; /* whether the process has made a socket */

static int may_wait(void) {
  return are_used && xsim_page && !xsim_is_inside() && syscall(SYS_gettid) == syscall(SYS_getpid);
}

int xsim_is_socket(int file) {
  struct sockaddr_storage name;
  socklen_t size = sizeof name;
  if (!may_wait() || getsockname(file, (struct sockaddr *)&name, &size)) return 0;
  if (name.ss_family != AF_UNIX || size > sizeof name.ss_family) return 1;
  size = sizeof name;
  return getpeername(file, (struct sockaddr *)&name, &size) == 0 && size > sizeof name.ss_family;
}

static void wait_for(struct pollfd *ends, nfds_t count, int64_t timeout_ns, void *site) {
  int64_t given[] = {L(ends), L(count), timeout_ns};
  xsim_call(XSIM_AWAIT, 3, given, site);
}

static int waits(int file, int flags) { return !(flags & MSG_DONTWAIT || fcntl(file, F_GETFL) & O_NONBLOCK); }

/* Before a call: let everything happen that comes before it; if the call may block, wait until it would not. */
void xsim_await(int file, int events, int flags, void *site) {
  struct pollfd end = {file, (short)events, 0};
  struct timeval limit = {0, 0};
  socklen_t size = sizeof limit;
  if (!xsim_is_socket(file)) return;
  getsockopt(file, SOL_SOCKET, events == POLLIN ? SO_RCVTIMEO : SO_SNDTIMEO, &limit, &size);
  int64_t limit_ns = limit.tv_sec * 1000000000L + limit.tv_usec * 1000L;
  wait_for(&end, 1, !events || !waits(file, flags) ? 0 : limit_ns ? limit_ns : -1, site); /* -1: without limit */
}

/* After an operation: let others check their sockets. Return its result. */
ssize_t xsim_tell(int file, ssize_t done, void *site) {
  if (xsim_is_socket(file)) xsim_call(XSIM_TELL, 0, NULL, site);
  return done;
}

int socket(int family, int type, int protocol) {
  are_used = 1;
  return (int)syscall(SYS_socket, family, type, protocol);
}

int accept4(int file, struct sockaddr *restrict name, socklen_t *restrict size, int flags) {
  xsim_await(file, POLLIN, 0, SITE);
  return (int)xsim_tell(file, syscall(SYS_accept4, file, name, size, flags), SITE);
}
int accept(int file, struct sockaddr *restrict name, socklen_t *restrict size) { return accept4(file, name, size, 0); }

int bind(int file, const struct sockaddr *name, socklen_t size) {
  if (may_wait()) wait_for(NULL, 0, 0, SITE);
  return (int)xsim_tell(file, syscall(SYS_bind, file, name, size), SITE);
}

int listen(int file, int most) {
  xsim_await(file, 0, 0, SITE);
  return (int)xsim_tell(file, syscall(SYS_listen, file, most), SITE);
}

int connect(int file, const struct sockaddr *name, socklen_t size) {
  if (may_wait()) wait_for(NULL, 0, 0, SITE);
  return (int)xsim_tell(file, syscall(SYS_connect, file, name, size), SITE);
}

int shutdown(int file, int how) {
  xsim_await(file, 0, 0, SITE);
  return (int)xsim_tell(file, syscall(SYS_shutdown, file, how), SITE);
}

ssize_t recvfrom(int file, void *restrict to, size_t size, int flags, struct sockaddr *restrict name,
                 socklen_t *restrict name_size) {
  ssize_t done = 0, got;
  do {
    xsim_await(file, POLLIN, flags, SITE);
    got = syscall(SYS_recvfrom, file, (char *)to + done, size - (size_t)done, flags, name, name_size);
    xsim_tell(file, got, SITE);
    if (got <= 0) return done ? done : got;
    done += got;
  } while (flags & MSG_WAITALL && done < (ssize_t)size);
  return done;
}
ssize_t recv(int file, void *to, size_t size, int flags) { return recvfrom(file, to, size, flags, NULL, NULL); }

/* A blocking call sends everything; in pieces for which there is room. */
ssize_t sendto(int file, const void *from, size_t size, int flags, const struct sockaddr *name, socklen_t name_size) {
  if (!xsim_is_socket(file) || !waits(file, flags)) {
    xsim_await(file, POLLOUT, flags, SITE);
    return xsim_tell(file, syscall(SYS_sendto, file, from, size, flags, name, name_size), SITE);
  }
  ssize_t done = 0, put;
  do {
    xsim_await(file, POLLOUT, 0, SITE);
    put = syscall(SYS_sendto, file, (const char *)from + done, size - (size_t)done, flags | MSG_DONTWAIT, name, name_size);
    if (put < 0 && errno != EAGAIN) return done ? done : put;
    if (put >= 0) done += xsim_tell(file, put, SITE);
  } while (done < (ssize_t)size);
  return done;
}
ssize_t send(int file, const void *from, size_t size, int flags) { return sendto(file, from, size, flags, NULL, 0); }

ssize_t recvmsg(int file, struct msghdr *message, int flags) {
  xsim_await(file, POLLIN, flags, SITE);
  return xsim_tell(file, syscall(SYS_recvmsg, file, message, flags), SITE);
}

ssize_t sendmsg(int file, const struct msghdr *message, int flags) {
  xsim_await(file, POLLOUT, flags, SITE);
  return xsim_tell(file, syscall(SYS_sendmsg, file, message, flags), SITE);
}

/* Virtual nodes are this host. */
static const char *host_of(const char *name, void *site) {
  int64_t given[] = {L(name)};
  if (!name || !xsim_page || xsim_is_inside() || !xsim_call(XSIM_NODE, 1, given, site)) return name;
  return "127.0.0.1";
}

struct hostent *gethostbyname(const char *name) { return REAL(gethostbyname, host_of(name, SITE)); }

int getaddrinfo(const char *restrict name, const char *restrict service, const struct addrinfo *restrict hints,
                struct addrinfo **restrict found) {
  return REAL(getaddrinfo, host_of(name, SITE), service, hints, found);
}

/* ---------------------------------------------------------------------------------------------------- several at once */

/* Wait for several descriptors, if one of them is a socket; without descriptors, sleep. Return the rest of the wait. */
static int awaited(struct pollfd *ends, nfds_t count, int64_t timeout_ns, void *site) {
  int sockets = 0;
  for (nfds_t i = 0; i < count; i++) sockets |= xsim_is_socket(ends[i].fd);
  if (sockets) wait_for(ends, count, timeout_ns, site);
  return sockets;
}

int poll(struct pollfd *ends, nfds_t count, int ms) {
  if (xsim_page && !count && ms >= 0) return xsim_sleep(ms * 1000000LL, SITE), 0;
  return REAL(poll, ends, count, awaited(ends, count, ms < 0 ? -1 : ms * 1000000LL, SITE) ? 0 : ms);
}

int select(int count, fd_set *restrict in, fd_set *restrict out, fd_set *restrict bad, struct timeval *restrict t) {
  struct pollfd ends[FD_SETSIZE];
  struct timeval none = {0, 0};
  int64_t timeout_ns = t ? t->tv_sec * 1000000000L + t->tv_usec * 1000L : -1;
  nfds_t used = 0;
  if (xsim_page && t && !(count && (in || out || bad))) return xsim_sleep(timeout_ns, SITE), 0;
  for (int file = 0; are_used && file < count && file < FD_SETSIZE; file++) {
    short events = (in && FD_ISSET(file, in) ? POLLIN : 0) | (out && FD_ISSET(file, out) ? POLLOUT : 0);
    if (events) ends[used++] = (struct pollfd){file, events, 0};
  }
  return REAL(select, count, in, out, bad, awaited(ends, used, timeout_ns, SITE) ? &none : t);
}
