/* Statuses: of empty messages without a buffer or a type, of many requests, and of partitioned messages. */
#include <mpi.h>
#include <stdio.h>

static int me, n;
static char line[500];
#define SAY(...) (snprintf(line, sizeof line, __VA_ARGS__), dprintf(1, "%d: %s\n", me, line))

static void say(const char *what, const MPI_Status *status) {
  int count = -5;
  MPI_Get_count(status, MPI_INT, &count);
  SAY("%s: source %d tag %d error %d count %d", what, status->MPI_SOURCE, status->MPI_TAG, status->MPI_ERROR, count);
}

int main(int argc, char **argv) {
  MPI_Request request;
  MPI_Message message;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  MPI_Status status = {.MPI_SOURCE = 71, .MPI_TAG = 72, .MPI_ERROR = 73};
  int next = (me + 1) % n, last = (me + n - 1) % n, *host = NULL, flag = 0;
  MPI_Isend(NULL, 0, MPI_INT, next, 7, MPI_COMM_WORLD, &request);
  MPI_Recv(NULL, 0, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
  say("no buffer", &status);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Sendrecv(NULL, 0, MPI_BYTE, next, 8, NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, 8, MPI_COMM_WORLD, &status);
  say("exchange without buffers", &status);
  MPI_Recv(NULL, 0, MPI_DATATYPE_NULL, MPI_PROC_NULL, 9, MPI_COMM_WORLD, &status);
  say("no type", &status);
  MPI_Mprobe(MPI_PROC_NULL, 5, MPI_COMM_WORLD, &message, &status);
  say("matched probe", &status);
  MPI_Mrecv(NULL, 0, MPI_INT, &message, &status);
  say("matched receive", &status);
  status.MPI_ERROR = 74;
  MPI_Irecv(NULL, 0, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, &status);
  say("no source", &status);
  MPI_Request_get_status(MPI_REQUEST_NULL, &flag, &status);
  say("null request", &status);
  MPI_Request many[40];
  MPI_Status of_many[40];
  for (int i = 0; i < 40; i++) many[i] = MPI_REQUEST_NULL;
  MPI_Isend(&me, 1, MPI_INT, next, 10, MPI_COMM_WORLD, &many[3]);
  MPI_Irecv(&flag, 1, MPI_INT, last, 10, MPI_COMM_WORLD, &many[37]);
  MPI_Waitall(40, many, of_many);
  say("one of many", &of_many[37]);
  int parts[4] = {0}, sent[4] = {0};
  MPI_Request both[2];
  MPI_Status statuses[2] = {0};
  MPI_Psend_init(sent, 2, 2, MPI_INT, next, 11, MPI_COMM_WORLD, MPI_INFO_NULL, &both[0]);
  MPI_Precv_init(parts, 2, 2, MPI_INT, last, 11, MPI_COMM_WORLD, MPI_INFO_NULL, &both[1]);
  MPI_Startall(2, both);
  MPI_Pready_range(0, 1, both[0]);
  MPI_Waitall(2, both, statuses);
  say("partitions", &statuses[1]);
  for (int i = 0; i < 2; i++) MPI_Request_free(&both[i]);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int code = MPI_Type_commit(&(MPI_Datatype){MPI_DATATYPE_NULL});
  MPI_Error_class(code, &code);
  SAY("without a communicator: %d", code == MPI_ERR_TYPE);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_HOST, &host, &flag);
  SAY("host %d", flag && *host == MPI_PROC_NULL);
  MPI_Finalize();
  return 0;
}
