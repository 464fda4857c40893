/* Sums of 8 bytes over all ranks, as ../programs/allreduce.py. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char *argv[])
{
    int rank, size, rounds = argc > 1 ? atoi(argv[1]) : 10;
    double mine, total;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    mine = rank;
    for (int round = 0; round < rounds; round++) {
        total = 0;
        MPI_Allreduce(&mine, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (total != size * (size - 1.0) / 2)
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0)
        printf("%.12f\n", MPI_Wtime());
    MPI_Finalize();
    return 0;
}
