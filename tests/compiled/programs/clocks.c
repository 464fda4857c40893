#define _GNU_SOURCE
#include <mpi.h>
#include <poll.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/select.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static long ns(clockid_t id) {
  struct timespec t;
  clock_gettime(id, &t);
  return t.tv_sec * 1000000000 + t.tv_nsec;
}

int main(int argc, char **argv) {
  struct timespec t = {1, 500000000};
  struct timeval v = {0, 250000};
  unsigned char drawn[4];
  int rank, readings = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  printf("%ld %ld %ld %ld\n", ns(CLOCK_REALTIME), ns(CLOCK_MONOTONIC), ns(CLOCK_PROCESS_CPUTIME_ID), (long)clock());
  sleep(rank);
  usleep(100);
  nanosleep(&t, NULL);
  thrd_sleep(&t, NULL);
  clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
  t = (struct timespec){20, 0};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
  poll(NULL, 0, 7);
  select(0, NULL, NULL, NULL, &v);
  printf("%ld %ld %.9f\n", ns(CLOCK_REALTIME), ns(CLOCK_MONOTONIC), MPI_Wtime());
  gettimeofday(&v, NULL);
  timespec_get(&t, TIME_UTC);
  printf("%ld.%06ld %ld %ld %ld\n", (long)v.tv_sec, (long)v.tv_usec, (long)time(NULL), (long)t.tv_sec, (long)clock());
  long end = ns(CLOCK_MONOTONIC) + 1000000000;
  while (ns(CLOCK_MONOTONIC) < end) readings++;
  getrandom(drawn, sizeof drawn, 0);
  printf("%d %d %02x%02x%02x%02x\n", readings, getpid(), drawn[0], drawn[1], drawn[2], drawn[3]);
  MPI_Finalize();
}
