/* The ways in which a rank ends; prints what it is given. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is(const char *word, const char *given) { return given && !strcmp(word, given); }

int main(int argc, char **argv) {
  const char *how = argv[1];
  char line[80] = "nothing\n", folder[4096];
  int rank, size, got;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (is("read", how) && fgets(line, sizeof line, stdin)) {}
  printf("%d of %d in %s, %s, %s", rank, size, strrchr(getcwd(folder, sizeof folder), '/') + 1, getenv("GIVEN"), line);
  if (rank == 1) {
    if (is("abort", how)) abort();
    if (is("exit", how)) exit(5);
    if (is("loop", how)) for (;;) {}
    if (is("recv", how)) MPI_Recv(&got, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
}
