/* Agreement: the second benchmark of the xSim papers, as apps/ft_agree.py.

   All ranks agree on the bitwise AND of a number per rank. After a failure all survivors acknowledge it and repeat the
   agreement until it succeeds.

   mpicc ft_agree.c -o ft_agree && mpirun --with-ft ulfm --oversubscribe -n 8 ./ft_agree 10
   xsim cc -g ft_agree.c -o ft_agree && xsim run -n 8 ./ft_agree 10
   xsim run -n 8 --fail rank=3@50us ./ft_agree 10 */
#include <mpi.h>
#include <mpi-ext.h>
#include <stdio.h>
#include <stdlib.h>

enum { BITS = 31 };

static int number_of(int rank) { return 0x7fffffff & ~(1 << rank % BITS); }

/* Agree, again after a failure; return the number, and count the failed attempts. */
static int agreed(MPI_Comm comm, int rank, int *failures) {
  for (;;) {
    int number = number_of(rank), class, code = MPIX_Comm_agree(comm, &number);
    if (code == MPI_SUCCESS) return number;
    MPI_Error_class(code, &class);
    if (class != MPIX_ERR_PROC_FAILED) MPI_Abort(comm, 1);
    MPIX_Comm_failure_ack(comm);
    ++*failures;
  }
}

int main(int argc, char **argv) {
  int rank, size, failures = 0, all = -1, living = -1, right = 1;
  int iterations = argc > 1 ? atoi(argv[1]) : 1;
  MPI_Comm comm = MPI_COMM_WORLD, last;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  for (int i = 0; i < size; i++) all &= number_of(i);
  double start = MPI_Wtime();
  for (int i = 0; i < iterations; i++) {
    MPI_Group dead, everybody;
    int count, number = agreed(comm, rank, &failures);
    living = all;
    if (number != all) { /* the numbers of ranks that have failed may be missing */
      int *ranks = malloc(2 * sizeof(int) * (size_t)size);
      MPIX_Comm_failure_get_acked(comm, &dead);
      MPI_Comm_group(comm, &everybody);
      MPI_Group_size(dead, &count);
      for (int k = 0; k < count; k++) ranks[k] = k;
      MPI_Group_translate_ranks(dead, count, ranks, everybody, ranks + size);
      living = -1;
      for (int k = 0; k < size; k++) {
        int is_dead = 0;
        for (int j = 0; j < count; j++) is_dead |= ranks[size + j] == k;
        if (!is_dead) living &= number_of(k);
      }
      MPI_Group_free(&dead);
      MPI_Group_free(&everybody);
      free(ranks);
    }
    right &= (number & all) == all && (number | living) == living;
  }
  double took = (MPI_Wtime() - start) / iterations;
  MPIX_Comm_shrink(comm, &last);
  MPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_INT, MPI_LAND, last);
  MPI_Comm_rank(last, &rank);
  if (rank == 0) {
    MPI_Comm_size(last, &size);
    printf("%d ranks agreed %d times, %d attempts failed, right numbers: %s\n", size, iterations, failures, right ? "yes" : "no");
    printf("time: %.3f us\n", 1e6 * took);
  }
  MPI_Comm_free(&last);
  MPI_Finalize();
  return !right;
}
