/* Processes that are spawned, ports, names, and partitioned messages; the program spawns itself. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int me, n;

static int total(MPI_Comm comm, int value) {
  int sum;
  MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm);
  return sum;
}

static void child(MPI_Comm parent, char **argv) {
  int *app, flag, remote;
  MPI_Comm all;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &app, &flag);
  MPI_Comm_remote_size(parent, &remote);
  MPI_Intercomm_merge(parent, 1, &all);
  printf("%s, child %d: of %d, app %d, sum %d, remote %d\n", argv[1], me, n, *app, total(all, me), remote);
  MPI_Comm_free(&all);
  MPI_Comm_disconnect(&parent);
}

static void spawn(char *name) {
  char *words[] = {"one", NULL}, *others[] = {"two", NULL}, **lines[] = {words, others}, *names[] = {name, name};
  int codes[3] = {-1, -1, -1}, counts[2] = {1, 2};
  MPI_Info hints[2] = {MPI_INFO_NULL, MPI_INFO_NULL};
  MPI_Comm children, all;
  MPI_Comm_spawn(name, words, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, codes);
  MPI_Intercomm_merge(children, 0, &all);
  printf("%d: spawned %d %d, sum %d\n", me, codes[0], codes[1], total(all, me));
  MPI_Comm_free(&all);
  MPI_Comm_disconnect(&children);
  MPI_Comm_spawn_multiple(2, names, lines, counts, hints, 0, MPI_COMM_WORLD, &children, codes);
  MPI_Intercomm_merge(children, 0, &all);
  printf("%d: spawned %d %d %d, sum %d\n", me, codes[0], codes[1], codes[2], total(all, me));
  MPI_Comm_free(&all);
  MPI_Comm_disconnect(&children);
  printf("%d: disconnected %d\n", me, children == MPI_COMM_NULL);
}

static void ports(void) {
  char port[MPI_MAX_PORT_NAME], found[MPI_MAX_PORT_NAME];
  int side = me % 2, size;
  MPI_Comm half, other;
  MPI_Comm_split(MPI_COMM_WORLD, side, me, &half);
  if (me == 0) {
    MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Publish_name("service", MPI_INFO_NULL, port);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (side == 0) {
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &other);
  } else {
    MPI_Lookup_name("service", MPI_INFO_NULL, found);
    MPI_Comm_connect(found, MPI_INFO_NULL, 0, half, &other);
  }
  MPI_Comm_remote_size(other, &size);
  printf("%d: connected to %d\n", me, size);
  MPI_Comm_disconnect(&other);
  if (me == 0) {
    MPI_Unpublish_name("service", MPI_INFO_NULL, port);
    MPI_Close_port(port);
  }
  MPI_Comm_free(&half);
}

static void partitions(void) {
  int sent[4] = {me, me + 1, me + 2, me + 3}, received[4] = {-1, -1, -1, -1}, list[] = {2}, flag = 0;
  MPI_Request requests[2];
  MPI_Psend_init(sent, 4, 1, MPI_INT, (me + 1) % n, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
  MPI_Precv_init(received, 2, 2, MPI_INT, (me + n - 1) % n, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
  for (int round = 0; round < 2; round++) {
    MPI_Startall(2, requests);
    MPI_Pready(0, requests[0]);
    MPI_Pready_list(1, list, requests[0]);
    MPI_Pready(1, requests[0]);
    MPI_Pready_range(3, 3, requests[0]);
    while (!flag) MPI_Parrived(requests[1], 0, &flag);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    printf("%d: partitions %d %d %d %d\n", me, received[0], received[1], received[2], received[3]);
    flag = 0;
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
}

int main(int argc, char **argv) {
  MPI_Comm parent;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  MPI_Comm_get_parent(&parent);
  if (parent != MPI_COMM_NULL) {
    child(parent, argv);
  } else {
    spawn(argv[0]);
    ports();
    partitions();
  }
  MPI_Finalize();
  return 0;
}
