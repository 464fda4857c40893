/* What a Fortran program with mpif.h calls, without a Fortran compiler: all by address, strings with lengths at the end. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef int *I;
extern int xsim_in_place_, xsim_status_ignore_[8], xsim_statuses_ignore_[8];
void mpi_init_(I), mpi_finalize_(I), mpi_comm_rank_(I, I, I), mpi_comm_size_(I, I, I), mpi_comm_free_(I, I);
void mpi_send_(void *, I, I, I, I, I, I), mpi_recv_(void *, I, I, I, I, I, I, I), mpi_waitsome_(I, I, I, I, I, I);
void mpi_isend_(void *, I, I, I, I, I, I, I), mpi_irecv_(void *, I, I, I, I, I, I, I), mpi_testany_(I, I, I, I, I, I);
void mpi_allreduce_(void *, void *, I, I, I, I, I), mpi_comm_dup_(I, I, I);
void mpi_alltoallw_(void *, I, I, I, void *, I, I, I, I, I);
void mpi_comm_set_name_(I, const char *, I, size_t), mpi_comm_get_name_(I, char *, I, I, size_t);
void mpi_comm_create_keyval_(void *, void *, I, intptr_t *, I), mpi_comm_set_attr_(I, I, intptr_t *, I);
void mpi_comm_get_attr_(I, I, intptr_t *, I, I), mpi_comm_dup_fn_(void), mpi_comm_null_delete_fn_(void);
void mpi_type_struct_(I, I, I, I, I, I), mpi_type_extent_(I, I, I);
void mpi_op_create_(void *, I, I, I), mpi_abort_(I, I, I), mpi_info_create_(I, I), mpi_info_set_(I, const char *, const char *, I, size_t, size_t);
void mpi_info_get_(I, const char *, I, char *, I, I, size_t, size_t);
double mpi_wtime_(void);

static int e, world = 257, self = 258, integer = 537, real8 = 540, sum = 33, request_null = 0x180, one = 1, two = 2, rank, size;

static void copy(I comm, I key, intptr_t *extra, intptr_t *in, intptr_t *out, I flag, I error) {
  (void)comm, (void)key;
  *out = *in + *extra, *flag = 1, *error = 0;
}
static void delete(I comm, I key, intptr_t *value, intptr_t *extra, I error) {
  (void)comm, (void)key;
  if (!rank) printf("deleted %ld %ld\n", (long)*value, (long)*extra);
  *error = 0;
}
static void product(I in, I inout, I count, I type) {
  for (int i = 0; i < *count; i++) inout[i] *= in[i] * (*type == integer);
}

static void around(void) {
  int next = (rank + 1) % size, last = (rank + size - 1) % size, got[2], given[2] = {rank, -rank}, requests[4], count, at[4];
  for (int tag = 0; tag < 2; tag++) mpi_irecv_(&got[tag], &one, &integer, &last, &tag, &world, &requests[tag], &e);
  for (int tag = 0; tag < 2; tag++) mpi_isend_(&given[tag], &one, &integer, &next, &tag, &world, &requests[2 + tag], &e);
  for (int done = 0, four = 4; done < 4; done += count) {
    mpi_waitsome_(&four, requests, &count, at, xsim_statuses_ignore_, &e);
    for (int i = 0; i < count; i++)
      if (at[i] < 1 || at[i] > 4 || requests[at[i] - 1] != request_null) printf("wrong index %d\n", at[i]);
  }
  int index = 0, flag = 0;
  mpi_testany_(&two, requests, &index, &flag, xsim_status_ignore_, &e);
  if (!rank) printf("around: %d %d, then %d %d\n", got[0], got[1], index, flag);
}

static void attributes(void) {
  int key, dup, flag, length;
  intptr_t extra = 100, value = 1L << 40;
  char name[8];
  mpi_comm_create_keyval_(copy, delete, &key, &extra, &e);
  mpi_comm_set_attr_(&self, &key, &value, &e);
  mpi_comm_dup_(&self, &dup, &e);
  mpi_comm_get_attr_(&dup, &key, &value, &flag, &e);
  if (!rank) printf("attribute %ld %d\n", (long)value, flag);
  mpi_comm_set_name_(&dup, "name    ", &e, 8);
  mpi_comm_get_name_(&dup, name, &length, &e, sizeof name);
  if (!rank) printf("[%.8s] %d\n", name, length);
  mpi_comm_free_(&dup, &e);
  mpi_comm_create_keyval_(mpi_comm_dup_fn_, mpi_comm_null_delete_fn_, &key, &extra, &e);
  mpi_comm_set_attr_(&world, &key, &extra, &e);
  mpi_comm_dup_(&world, &dup, &e);
  mpi_comm_get_attr_(&dup, &key, &value, &flag, &e);
  if (!rank) printf("attribute %ld %d\n", (long)value, flag);
}

static void info(void) {
  int info, flag, most = 4;
  char value[6] = "......";
  mpi_info_create_(&info, &e);
  mpi_info_set_(&info, " key ", " value ", &e, 5, 7);
  mpi_info_get_(&info, "none", &most, value, &flag, &e, 4, 6);
  if (!rank) printf("[%.6s] %d\n", value, flag);
  mpi_info_get_(&info, "key ", &most, value, &flag, &e, 4, 6);
  if (!rank) printf("[%.6s] %d\n", value, flag);
}

static void types(void) {
  int op, value = rank + 1, given[8], got[8], counts[8], places[8], kinds[8], commutes = 1;
  mpi_op_create_(product, &commutes, &op, &e);
  mpi_allreduce_(&xsim_in_place_, &value, &one, &integer, &op, &world, &e);
  for (int i = 0; i < size; i++) given[i] = 10 * rank + i, counts[i] = 1, places[i] = 4 * i, kinds[i] = integer;
  mpi_alltoallw_(given, counts, places, kinds, got, counts, places, kinds, &world, &e);
  int lengths[2] = {1, 2}, at[2] = {0, 8}, members[2] = {integer, real8}, made, extent;
  mpi_type_struct_(&two, lengths, at, members, &made, &e);
  mpi_type_extent_(&made, &extent, &e);
  if (!rank) printf("extent %d\n", extent);
  double pair[2] = {rank % 2, rank};
  int maxloc = 0x39, real8_pair = 0x231, error = 9;
  mpi_allreduce_(&xsim_in_place_, pair, &one, &real8_pair, &maxloc, &world, &error);
  if (!rank) printf("product %d, all to all %d %d, maximum %g at %g, %d\n", value, got[0], got[1], pair[0], pair[1], error);
}

int main(void) {
  int token = 0, tag = 7, status[8];
  mpi_init_(&e);
  mpi_comm_rank_(&world, &rank, &e);
  mpi_comm_size_(&world, &size, NULL); /* an absent ierror of mpi_f08 */
  int next = (rank + 1) % size, last = (rank + size - 1) % size;
  if (rank) mpi_recv_(&token, &one, &integer, &last, &tag, &world, status, &e);
  token++;
  mpi_send_(&token, &one, &integer, &next, &tag, &world, &e);
  if (!rank) mpi_recv_(&token, &one, &integer, &last, &tag, &world, status, &e);
  double total = rank;
  mpi_allreduce_(&xsim_in_place_, &total, &one, &real8, &sum, &world, &e);
  if (!rank) printf("token %d from %d with %d after %g s, sum %g\n", token, status[0], status[1], mpi_wtime_(), total);
  around();
  attributes();
  info();
  types();
  mpi_finalize_(&e);
  return 0;
}
