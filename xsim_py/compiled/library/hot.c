/* The calls that programs make most often: small data of predefined types go through the page. */
#include "runtime.h"
#include "mpi.h"

#define ARGUMENTS(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (const int64_t[]){__VA_ARGS__}, SITE
#define PROFILED(name, parameters) \
  int MPI_##name parameters __attribute__((weak, alias("PMPI_" #name))); \
  int PMPI_##name parameters

static int64_t bytes_of(int64_t count, MPI_Datatype type) {
  uint64_t place = (uint64_t)type - 0x200;
  if (!xsim_page || place > 255 || count < 0 || count > XSIM_PAYLOAD_BYTES || !xsim_page->sizes[place]) return -1;
  int64_t size = count * xsim_page->sizes[place];
  return size <= XSIM_PAYLOAD_BYTES ? size : -1;
}

#define SEND(name, int_type, number) \
  PROFILED(name, (const void *buf, int_type count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)) { \
    struct xsim_data data = {buf, bytes_of(count, datatype), 0, -1, 0}; \
    struct xsim_queued call = {0, number, (uint64_t)SITE, 0, data.sent_bytes, {0, 0, 0, dest, tag, L(comm)}}; \
    if (xsim_ahead(&call, buf)) return MPI_SUCCESS; \
    return (int)xsim_call_with(number, ARGUMENTS(L(buf), count, L(datatype), dest, tag, L(comm)), &data); \
  }
#define RECV(name, int_type, number) \
  PROFILED(name, (void *buf, int_type count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Status *status)) { \
    struct xsim_data data = {0, -1, buf, bytes_of(count, datatype), status}; \
    return (int)xsim_call_with(number, ARGUMENTS(L(buf), count, L(datatype), source, tag, L(comm), L(status)), &data); \
  }
#define ISEND(name, int_type, number) \
  PROFILED(name, (const void *buf, int_type count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request *request)) { \
    struct xsim_data data = {buf, bytes_of(count, datatype), 0, -1, 0}; \
    struct xsim_queued call = {0, number, (uint64_t)SITE, 0, data.sent_bytes, {0, 0, 0, dest, tag, L(comm)}}; \
    if (xsim_ahead(&call, buf)) return *request = (MPI_Request)call.request, MPI_SUCCESS; \
    return (int)xsim_call_with(number, ARGUMENTS(L(buf), count, L(datatype), dest, tag, L(comm), L(request)), &data); \
  }
#define IRECV(name, int_type, number) \
  PROFILED(name, (void *buf, int_type count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Request *request)) { \
    struct xsim_data data = {0, -1, 0, -1, 0}; \
    struct xsim_queued call = {0, number, (uint64_t)SITE, 0, 0, {L(buf), count, L(datatype), source, tag, L(comm)}}; \
    if (xsim_ahead(&call, buf)) return *request = (MPI_Request)call.request, MPI_SUCCESS; \
    return (int)xsim_call_with(number, ARGUMENTS(L(buf), count, L(datatype), source, tag, L(comm), L(request)), &data); \
  }
#define SENDRECV(name, int_type, number) \
  PROFILED(name, (const void *sendbuf, int_type sendcount, MPI_Datatype sendtype, int dest, int sendtag, void *recvbuf, \
                  int_type recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm, MPI_Status *status)) { \
    struct xsim_data data = {sendbuf, bytes_of(sendcount, sendtype), recvbuf, bytes_of(recvcount, recvtype), status}; \
    return (int)xsim_call_with(number, ARGUMENTS(L(sendbuf), sendcount, L(sendtype), dest, sendtag, L(recvbuf), recvcount, \
                                                 L(recvtype), source, recvtag, L(comm), L(status)), &data); \
  }

#include "numbers.h"
SEND(Send, int, XSIM_SEND)
SEND(Send_c, MPI_Count, XSIM_SEND | 1 << 16)
RECV(Recv, int, XSIM_RECV)
RECV(Recv_c, MPI_Count, XSIM_RECV | 1 << 16)
ISEND(Isend, int, XSIM_ISEND)
ISEND(Isend_c, MPI_Count, XSIM_ISEND | 1 << 16)
IRECV(Irecv, int, XSIM_IRECV)
IRECV(Irecv_c, MPI_Count, XSIM_IRECV | 1 << 16)
SENDRECV(Sendrecv, int, XSIM_SENDRECV)
SENDRECV(Sendrecv_c, MPI_Count, XSIM_SENDRECV | 1 << 16)

/* Requests go through the page, too: up to this number in one call. */
enum { MOST_REQUESTS = XSIM_PAYLOAD_BYTES / (sizeof(MPI_Request) + sizeof(MPI_Status)) };

PROFILED(Wait, (MPI_Request *request, MPI_Status *status)) {
  struct xsim_data data = {request, sizeof *request, 0, -1, 0};
  return (int)xsim_call_with(XSIM_WAIT, ARGUMENTS(L(request), L(status)), &data);
}

PROFILED(Waitall, (int count, MPI_Request requests[], MPI_Status statuses[])) {
  int fits = count >= 0 && count <= MOST_REQUESTS;
  struct xsim_data data = {requests, fits ? count * (int64_t)sizeof *requests : -1, 0, -1, 0};
  return (int)xsim_call_with(XSIM_WAITALL, ARGUMENTS(count, L(requests), L(statuses)), &data);
}
