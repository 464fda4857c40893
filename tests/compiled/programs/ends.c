/* Queued calls between lines of output, requests, and ways to end. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void end(const char *how) {
  int x;
  if (!strcmp(how, "crash")) *(volatile int *)8 = 1;
  if (!strcmp(how, "exit")) exit(3);
  if (!strcmp(how, "abort")) abort();
  if (!strcmp(how, "MPI_Abort")) MPI_Abort(MPI_COMM_WORLD, 7);
  if (!strcmp(how, "hang")) MPI_Recv(&x, 1, MPI_INT, 0, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
  int me, size, x, got[2];
  MPI_Request requests[4];
  MPI_Status statuses[4];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int left = (me + size - 1) % size, right = (me + 1) % size;
  if (me == 0) {
    printf("before\n");
    for (int to = 1; to < size; to++) MPI_Send(&to, 1, MPI_INT, to, 0, MPI_COMM_WORLD);
    printf("after, half");
    fprintf(stderr, "error\n");
    printf(" a line\n");
    if (write(1, "raw\n", 4) != 4) return 1;
    dprintf(1, "%d\n", size);
    if (system("echo from a shell")) return 1;
  } else {
    MPI_Recv(&x, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, statuses);
    printf("%d got %d\n", me, x);
  }
  MPI_Irecv(got, 1, MPI_INT, left, 5, MPI_COMM_WORLD, requests);
  MPI_Irecv(got + 1, 1, MPI_INT, right, 6, MPI_COMM_WORLD, requests + 1);
  MPI_Isend(&me, 1, MPI_INT, right, 5, MPI_COMM_WORLD, requests + 2);
  MPI_Isend(&me, 1, MPI_INT, left, 6, MPI_COMM_WORLD, requests + 3);
  MPI_Waitall(4, requests, statuses);
  for (int i = 0; i < 2; i++)
    if (got[i] != (i ? right : left) || statuses[i].MPI_SOURCE != got[i] || requests[i] != MPI_REQUEST_NULL) return 1;
  if (argc > 1 && me == 1) end(argv[1]);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return me == 2 ? 5 : 0;
}
