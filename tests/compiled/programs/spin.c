/* Spin until an hour has passed. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  double start = MPI_Wtime();
  while (MPI_Wtime() - start < 3600) {}
  printf("%.3f\n", MPI_Wtime());
  MPI_Finalize();
  return 0;
}
