/* A function of the program runs while calls are carried out that the program has queued. */
#include <mpi.h>
#include <stdio.h>

enum { MANY = 400 };

static void largest(void *in, void *inout, int *count, MPI_Datatype *type) {
  (void)count, (void)type;
  if (*(int *)in > *(int *)inout) *(int *)inout = *(int *)in;
}

int main(int argc, char **argv) {
  int me, n, found, got, done;
  MPI_Request request, sent;
  MPI_Op op;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  MPI_Op_create(largest, 1, &op);
  MPI_Iallreduce(&me, &found, 1, MPI_INT, op, MPI_COMM_WORLD, &request);
  for (int i = 0; i < MANY; i++) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE); /* takes time, and so the next call finds events of that time */
    MPI_Isend(&i, 1, MPI_INT, (me + 1) % n, 0, MPI_COMM_WORLD, &sent);
    MPI_Request_free(&sent);
  }
  for (int i = 0; i < MANY; i++) MPI_Recv(&got, 1, MPI_INT, (me + n - 1) % n, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  printf("%d: %d %d\n", me, found, got);
  MPI_Op_free(&op);
  MPI_Finalize();
}
