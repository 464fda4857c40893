/* Rounds of 1 KiB to the next rank, as ../programs/ring.py. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE_BYTES = 1024 };

int main(int argc, char *argv[])
{
    int rank, size, rounds = argc > 1 ? atoi(argv[1]) : 10;
    unsigned char send[SIZE_BYTES], recv[SIZE_BYTES];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    memset(send, rank % 251, SIZE_BYTES);
    for (int round = 0; round < rounds; round++) {
        MPI_Sendrecv(send, SIZE_BYTES, MPI_BYTE, (rank + 1) % size, 0, recv, SIZE_BYTES, MPI_BYTE,
                     (rank - 1 + size) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        memcpy(send, recv, SIZE_BYTES);
    }
    if (send[0] != (rank + size - rounds % size) % size % 251)
        MPI_Abort(MPI_COMM_WORLD, 1);
    if (rank == 0)
        printf("%.12f\n", MPI_Wtime());
    MPI_Finalize();
    return 0;
}
