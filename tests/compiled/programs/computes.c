/* Processes that have begun or computed at the same time compute on for a while; without a parent, also spawn others. */
#include <mpi.h>
#include <stdio.h>
#include <xsim.h>

static void compute(void) {
  for (volatile long i = 0; i < 3000000; i++) {}
}

int main(int argc, char **argv) {
  MPI_Comm between;
  MPI_Init(&argc, &argv);
  compute();
  MPI_Comm_get_parent(&between);
  if (argc > 1 && between == MPI_COMM_NULL) {
    char *none[] = {NULL};
    MPI_Comm_spawn(argv[0], none, 4, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between, MPI_ERRCODES_IGNORE);
  }
  xsim_work(2e6, 0);
  compute();
  MPI_Barrier(between == MPI_COMM_NULL ? MPI_COMM_WORLD : between);
  puts("done");
  MPI_Finalize();
}
