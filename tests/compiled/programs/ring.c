#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  int me, n, token = 0; MPI_Status st;
  int rounds = argc > 1 ? atoi(argv[1]) : 3;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me); MPI_Comm_size(MPI_COMM_WORLD, &n);
  for (int i = 0; i < rounds; i++) {
    if (me == 0) { token++; MPI_Send(&token, 1, MPI_INT, (me + 1) % n, 7, MPI_COMM_WORLD); MPI_Recv(&token, 1, MPI_INT, n - 1, 7, MPI_COMM_WORLD, &st); }
    else { MPI_Recv(&token, 1, MPI_INT, me - 1, 7, MPI_COMM_WORLD, &st); token++; MPI_Send(&token, 1, MPI_INT, (me + 1) % n, 7, MPI_COMM_WORLD); }
  }
  double sum, mine = me;
  MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (me == 0) printf("token %d after %g s, sum %g\n", token, MPI_Wtime(),sum);
  MPI_Finalize();
  return 0;
}
