/* Counts what mpi4py itself sends point-to-point and which communicators it makes; linked before a real MPI. */
#include <mpi.h>
#include <stdio.h>

static long counted[5]; /* sends, their bytes, MPI_Comm_dup, MPI_Intercomm_merge, MPI_Comm_create */

static void count(MPI_Count n, MPI_Datatype type)
{
    int bytes;
    PMPI_Type_size(type, &bytes);
    counted[0]++;
    counted[1] += n * bytes;
}

int MPI_Send_c(const void *data, MPI_Count n, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    count(n, type);
    return PMPI_Send_c(data, n, type, dest, tag, comm);
}

int MPI_Sendrecv_c(const void *data, MPI_Count n, MPI_Datatype type, int dest, int tag, void *room, MPI_Count most,
                   MPI_Datatype kind, int source, int its_tag, MPI_Comm comm, MPI_Status *status)
{
    count(n, type);
    return PMPI_Sendrecv_c(data, n, type, dest, tag, room, most, kind, source, its_tag, comm, status);
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *made)
{
    counted[2]++;
    return PMPI_Comm_dup(comm, made);
}

int MPI_Intercomm_merge(MPI_Comm comm, int high, MPI_Comm *made)
{
    counted[3]++;
    return PMPI_Intercomm_merge(comm, high, made);
}

int MPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *made)
{
    counted[4]++;
    return PMPI_Comm_create(comm, group, made);
}

int MPI_Finalize(void)
{
    int rank;
    long all[5];
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Reduce(counted, all, 5, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (!rank)
        printf("counted %ld %ld %ld %ld %ld\n", all[0], all[1], all[2], all[3], all[4]);
    return PMPI_Finalize();
}
