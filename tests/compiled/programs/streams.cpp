/* Streams of C++, and what only a process of its own has. */
#include <mpi.h>

#include <iostream>
#include <random>

thread_local int ranks = 40;

int main(int argc, char **argv) {
  int me;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  ranks += me;
  if (me) MPI_Recv(&me, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  else {
    std::cout << "first" << std::endl;
    for (int to = 1; to < 3; to++) MPI_Send(&to, 1, MPI_INT, to, 0, MPI_COMM_WORLD);
  }
  std::cout << me << ": " << ranks << std::endl;
  std::cerr << me << " draws " << std::random_device()() << std::endl;
  MPI_Finalize();
}
