/* A process of a rank: its identity, its threads and its children. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t never = PTHREAD_COND_INITIALIZER;
  struct timespec end;
  struct utsname system;
  char name[100];
  int status, local;
  MPI_Init(&argc, &argv);
  uname(&system);
  gethostname(name, sizeof name);
  printf("%s %s %d %s\n", name, system.nodename, getpid(), argc > 1 ? argv[1] : "-");
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_nsec += 1000000;
  pthread_mutex_lock(&mutex);
  printf("timeout %d\n", pthread_cond_timedwait(&never, &mutex, &end) == ETIMEDOUT);
  fflush(stdout);
  if (fork() == 0) { /* real: its clock, and its number */
    printf("child %d %d\n", time(NULL) > 1600000000, getpid() > 0 && getpid() != 10000);
    fflush(stdout);
    _exit(3);
  }
  wait(&status);
  printf("status %d, others %d, page %p %p\n", WEXITSTATUS(status), kill(1, 0), (void *)&local, (void *)main);
  FILE *stream = fopen("/dev/urandom", "r");
  int file = open("/dev/random", O_RDONLY);
  printf("drawn %d %d %d\n", fgetc(stream), fgetc(stream), read(file, &status, 1) == 1 ? status & 255 : -1);
  fclose(stream);
  close(file);
  MPI_Finalize();
  kill(getpid(), SIGTERM);
}
