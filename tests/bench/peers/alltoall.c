/* 64 bytes from each rank to each, as ../programs/alltoall.py. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCK = 8 };

int main(int argc, char *argv[])
{
    int rank, size, rounds = argc > 1 ? atoi(argv[1]) : 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long long *send = malloc(sizeof *send * BLOCK * size), *recv = malloc(sizeof *recv * BLOCK * size);
    for (int i = 0; i < BLOCK * size; i++)
        send[i] = (long long)rank * size + i / BLOCK;
    for (int round = 0; round < rounds; round++) {
        MPI_Alltoall(send, BLOCK, MPI_LONG_LONG, recv, BLOCK, MPI_LONG_LONG, MPI_COMM_WORLD);
        for (int i = 0; i < BLOCK * size; i++)
            if (recv[i] != (long long)(i / BLOCK) * size + rank)
                MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0)
        printf("%.12f\n", MPI_Wtime());
    free(send);
    free(recv);
    MPI_Finalize();
    return 0;
}
