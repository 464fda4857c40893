/* Revoke and shrink: the synthetic benchmark of the xSim papers, as apps/ft_shrink_barrier.py.

   All ranks add up an integer and meet in a barrier. One rank, the victim, kills itself before that, or a simulator kills
   one. Who sees an error revokes the communicator; the survivors shrink it and begin again.

   mpicc ft_shrink_barrier.c -o ft_shrink_barrier && mpirun --with-ft ulfm --oversubscribe -n 8 ./ft_shrink_barrier 3
   xsim cc -g ft_shrink_barrier.c -o ft_shrink_barrier && xsim run -n 8 --ft ./ft_shrink_barrier 3
   xsim run -n 8 --fail "rank=3 before its 1st Reduce" ./ft_shrink_barrier */
#include <mpi.h>
#include <mpi-ext.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

/* Replace `comm` by a communicator without the failed processes. */
static void repair(MPI_Comm *comm) {
  MPI_Comm smaller;
  MPIX_Comm_revoke(*comm);
  if (MPIX_Comm_shrink(*comm, &smaller) != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Comm_free(comm);
  *comm = smaller;
  MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
}

int main(int argc, char **argv) {
  int rank, size, left, attempts = 0;
  long mine, sum = 0;
  MPI_Comm comm;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  if (argc > 1 && rank == atoi(argv[1])) raise(SIGKILL);
  double start = MPI_Wtime();
  for (;; repair(&comm)) {
    attempts++;
    mine = 1 + rank;
    if (MPI_Reduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, 0, comm) == MPI_SUCCESS && MPI_Barrier(comm) == MPI_SUCCESS) break;
  }
  double took = MPI_Wtime() - start;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &left);
  if (rank == 0) {
    printf("%d ranks, %d failed, %d attempts, sum %ld\n", size, size - left, attempts, sum);
    printf("time: %.3f us\n", 1e6 * took);
  }
  MPI_Comm_free(&comm);
  MPI_Finalize();
  return 0;
}
