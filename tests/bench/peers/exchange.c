/* Rounds of messages of any size along a ring, in pairs as of an allreduce, or between all ranks; as
   ../programs/exchange.py. Every rank has one buffer to send and one to receive. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char *argv[])
{
    int rank, size, rounds = atoi(argv[1]), bytes = atoi(argv[3]);
    const char *pattern = argv[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char *send = calloc(bytes, 1), *recv = calloc(bytes, 1);
    int powers = strcmp(pattern, "powers") == 0, ring = strcmp(pattern, "ring") == 0;
    for (int round = 0; round < rounds; round++)
        for (int step = 1; step < (ring ? 2 : size); step = powers ? 2 * step : step + 1) {
            int pairs = !ring && (size & (size - 1)) == 0;
            int to = pairs ? rank ^ step : (rank + step) % size, from = pairs ? to : (rank - step + size) % size;
            MPI_Sendrecv(send, bytes, MPI_BYTE, to, 0, recv, bytes, MPI_BYTE, from, 0, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
        }
    printf("%.12f\n", MPI_Wtime()); /* each rank: to find the last one by messages would disturb the others */
    free(send);
    free(recv);
    MPI_Finalize();
    return 0;
}
