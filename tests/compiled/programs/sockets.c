/* Sockets between ranks: rank 0 serves the others, which wait for each other's data and for messages. */
#include <mpi.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { SIZE = 3000000 };
static int me, n;
static char data[SIZE];

static const struct sockaddr_un name = {AF_UNIX, "socket"};

static void serve(void) {
  int listening = socket(AF_UNIX, SOCK_STREAM, 0);
  bind(listening, (const struct sockaddr *)&name, sizeof name);
  listen(listening, n);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 1; i < n; i++) {
    struct pollfd end = {listening, POLLIN, 0};
    poll(&end, 1, -1);
    int file = accept(listening, NULL, NULL);
    long got = recv(file, data, 1, 0);
    printf("from %d, %ld byte\n", data[0], got);
    send(file, data, SIZE, 0);
    close(file);
  }
  close(listening);
  unlink("socket");
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  if (me == 0) serve();
  else {
    int file = socket(AF_UNIX, SOCK_STREAM, 0), before;
    long total = 0, got;
    MPI_Barrier(MPI_COMM_WORLD);
    if (me > 1) MPI_Recv(&before, 1, MPI_INT, me - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    connect(file, (const struct sockaddr *)&name, sizeof name);
    data[0] = (char)me;
    send(file, data, 1, 0);
    while ((got = recv(file, data, SIZE, 0)) > 0) total += got;
    close(file);
    printf("%d: %ld bytes\n", me, total);
    if (me < n - 1) MPI_Send(&me, 1, MPI_INT, me + 1, 0, MPI_COMM_WORLD);
  }
  MPI_Finalize();
}
