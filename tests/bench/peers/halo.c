/* Rounds in which each rank sends 2 KiB to its four neighbours in a periodic grid, as ../programs/halo.py. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDES = 4, LENGTH = 256 };

int main(int argc, char *argv[])
{
    int rank, size, rounds = argc > 1 ? atoi(argv[1]) : 10, dims[2] = {0, 0};
    double send[LENGTH], recv[SIDES][LENGTH];
    MPI_Request requests[2 * SIDES];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Dims_create(size, 2, dims);
    int rows = dims[0], columns = dims[1], row = rank / columns, column = rank % columns;
    int neighbours[SIDES] = {(row + rows - 1) % rows * columns + column, (row + 1) % rows * columns + column,
                             row * columns + (column + columns - 1) % columns, row * columns + (column + 1) % columns};
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < LENGTH; i++)
            send[i] = rank + round;
        for (int side = 0; side < SIDES; side++) {
            MPI_Irecv(recv[side], LENGTH, MPI_DOUBLE, neighbours[side], side ^ 1, MPI_COMM_WORLD, &requests[side]);
            MPI_Isend(send, LENGTH, MPI_DOUBLE, neighbours[side], side, MPI_COMM_WORLD, &requests[SIDES + side]);
        }
        MPI_Waitall(2 * SIDES, requests, MPI_STATUSES_IGNORE);
        for (int side = 0; side < SIDES; side++)
            if (recv[side][0] != neighbours[side] + round || recv[side][LENGTH - 1] != neighbours[side] + round)
                MPI_Abort(MPI_COMM_WORLD, 1);
    }
    printf("%.12f\n", MPI_Wtime());
    MPI_Finalize();
    return 0;
}
