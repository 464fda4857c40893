/* Threads wait for each other in real time, whatever clock they name. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double real_s(void) {
  struct timespec t;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct timespec soon(clockid_t id) {
  struct timespec t;
  clock_gettime(id, &t);
  t.tv_nsec += 50000000;
  if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
  return t;
}

int main(int argc, char **argv) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  sem_t semaphore;
  struct timespec end;
  double start = real_s();
  MPI_Init(&argc, &argv);
  sem_init(&semaphore, 0, 0);
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < 4; i++) {
    start = real_s();
    end = soon(i % 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME);
    if (i == 0) sem_timedwait(&semaphore, &end);
    if (i == 1) sem_clockwait(&semaphore, CLOCK_MONOTONIC, &end);
    if (i == 2) pthread_cond_timedwait(&condition, &mutex, &end);
    if (i == 3) pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &end);
    double took = real_s() - start;
    printf("%d: %s\n", i, took < 0.04 ? "too early" : took > 30 ? "too late" : "in time");
  }
  MPI_Finalize();
  return 0;
}
