/* Two compute intervals: one of some 50 ms, and one that is declared. Prints their virtual times and the real one. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <xsim.h>

static double processor_s(void) {
  struct timespec t;
  syscall(SYS_clock_gettime, CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  double begin = processor_s(), first = MPI_Wtime();
  while (processor_s() < begin + 0.05) {
  }
  double second = MPI_Wtime(), took = processor_s() - begin;
  xsim_work(3e9, 0);
  printf("%.9f %.9f %.9f\n", took, second - first, MPI_Wtime() - second);
  MPI_Finalize();
}
