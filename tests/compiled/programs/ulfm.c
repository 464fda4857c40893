/* A failure: results beside errors, revocation, agreement, shrinking; the second form of each call. */
#include <mpi-ext.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>

static int me, handled;
static char line[500];
#define SAY(...) (snprintf(line, sizeof line, __VA_ARGS__), printf("%d: %s at %.9f\n", me, line, MPI_Wtime()))

static void note(MPI_Comm *comm, int *code, ...) {
  int class;
  MPI_Error_class(*code, &class);
  handled += class == MPIX_ERR_PROC_FAILED;
  MPIX_Comm_revoke(*comm);
}

static int class_of(int code) {
  int class;
  MPI_Error_class(code, &class);
  return class;
}

int main(int argc, char **argv) {
  int n, flag, code, count, sum;
  MPI_Comm world, smaller, again;
  MPI_Group failed;
  MPI_Errhandler handler;
  MPI_Request request;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_dup(MPI_COMM_WORLD, &world);
  MPI_Comm_create_errhandler(note, &handler);
  MPI_Comm_set_errhandler(world, handler);
  MPI_Errhandler_free(&handler);
  if (me == n - 1) raise(SIGKILL);
  code = MPI_Barrier(world);
  SAY("barrier %d, handled %d", class_of(code) == MPIX_ERR_PROC_FAILED || class_of(code) == MPIX_ERR_REVOKED, handled);
  MPIX_Comm_is_revoked(world, &flag);
  SAY("revoked %d", flag);
  flag = me == 0 ? 6 : 3;
  code = MPIX_Comm_agree(MPI_COMM_WORLD, &flag);
  SAY("agreed %d, failed %d", flag, class_of(code) == MPI_ERR_PROC_FAILED);
  MPIX_Comm_failure_ack(MPI_COMM_WORLD);
  MPIX_Comm_failure_get_acked(MPI_COMM_WORLD, &failed);
  MPI_Group_size(failed, &count);
  MPI_Group_free(&failed);
  MPI_Comm_ack_failed(MPI_COMM_WORLD, 1, &sum);
  SAY("acknowledged %d %d", count, sum);
  flag = -2;
  MPI_Comm_iagree(MPI_COMM_WORLD, &flag, &request);
  code = MPI_Wait(&request, MPI_STATUS_IGNORE);
  SAY("agreed %d, failed %d", flag, code != MPI_SUCCESS);
  MPIX_Comm_shrink(world, &smaller);
  MPI_Comm_ishrink(MPI_COMM_WORLD, &again, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, smaller);
  MPI_Comm_size(again, &count);
  SAY("sum %d of %d", sum, count);
  MPI_Comm_free(&again);
  MPI_Comm_free(&smaller);
  MPI_Finalize();
  return 0;
}
