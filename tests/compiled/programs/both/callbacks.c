/* Functions of the program that MPI calls: operations, attributes, error handlers, generalized requests. */
#include <mpi.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <stddef.h>
#include <string.h>

static int me, n;
static jmp_buf back;
static char line[500];
#define SAY(...) (snprintf(line, sizeof line, __VA_ARGS__), dprintf(1, "%d: %s\n", me, line))

/* ------------------------------------------------------------------------------------------------------- operations */

typedef struct { double unused, a, b, c, d; char gap[8]; } matrix;

static void multiply(void *in, void *inout, int *count, MPI_Datatype *type) {
  matrix *left = in, *right = inout;
  MPI_Aint lb, extent;
  MPI_Type_get_extent(*type, &lb, &extent);
  if (lb != 0 || extent != sizeof(matrix)) abort();
  for (int i = 0; i < *count; i++, left++, right++) {
    matrix x = *right;
    right->a = left->a * x.a + left->b * x.c;
    right->b = left->a * x.b + left->b * x.d;
    right->c = left->c * x.a + left->d * x.c;
    right->d = left->c * x.b + left->d * x.d;
  }
}

static void longest(void *in, void *inout, MPI_Count *count, MPI_Datatype *type) {
  (void)type;
  for (MPI_Count i = 0; i < *count; i++)
    if (((int *)in)[i] > ((int *)inout)[i]) ((int *)inout)[i] = ((int *)in)[i];
}

static void operations(void) {
  MPI_Datatype four, type;
  MPI_Op times, most;
  int flag, mine[3] = {me, -me, (me * 7) % 5}, all[3];
  matrix given[2] = {{-1, 1, me + 1, 0, 1, ""}, {-1, 1, 0, me, 1, ""}}, got[2];
  MPI_Aint place = offsetof(matrix, a);
  int length = 4;
  MPI_Datatype element = MPI_DOUBLE;
  MPI_Type_create_struct(1, &length, &place, &element, &four);
  MPI_Type_create_resized(four, 0, sizeof(matrix), &type);
  MPI_Type_commit(&type);
  MPI_Type_free(&four);
  MPI_Op_create(multiply, 0, &times);
  MPI_Op_commutative(times, &flag);
  SAY("commutative %d", flag);
  memset(got, 0, sizeof got);
  got[0].unused = got[1].unused = 77;
  MPI_Scan(given, got, 2, type, times, MPI_COMM_WORLD);
  SAY("scan %g %g %g %g, %g %g, beside %g", got[0].a, got[0].b, got[0].c, got[0].d, got[1].b, got[1].c, got[1].unused);
  MPI_Allreduce(MPI_IN_PLACE, given, 2, type, times, MPI_COMM_WORLD);
  SAY("allreduce %g %g %g %g, beside %g", given[0].a, given[0].b, given[1].c, given[1].d, given[0].unused);
  MPI_Op_create_c(longest, 1, &most);
  MPI_Request request;
  MPI_Ireduce(mine, all, 3, MPI_INT, most, n - 1, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (me == n - 1) SAY("ireduce %d %d %d", all[0], all[1], all[2]);
  MPI_Reduce_local(mine, all, 0, MPI_INT, most);
  MPI_Op_free(&most);
  MPI_Op_free(&times);
  MPI_Type_free(&type);
  SAY("freed %d %d", most == MPI_OP_NULL, type == MPI_DATATYPE_NULL);
}

/* ------------------------------------------------------------------------------------------------------- attributes */

static int copy(MPI_Comm comm, int key, void *extra, void *value, void *out, int *flag) {
  int size;
  (void)key;
  MPI_Comm_size(comm, &size);
  *(void **)out = (char *)value + 1;
  *flag = *(int *)extra;
  SAY("copy of %s on %d ranks", (char *)value, size);
  return MPI_SUCCESS;
}

static int forget(MPI_Comm comm, int key, void *value, void *extra) {
  (void)key;
  SAY("delete %s, %d", (char *)value, comm == MPI_COMM_SELF ? -1 : *(int *)extra);
  static int refusals = 1;
  return strcmp(value, "stays") || !refusals-- ? MPI_SUCCESS : MPI_ERR_OTHER;
}

static int type_copy(MPI_Datatype type, int key, void *extra, void *value, void *out, int *flag) {
  (void)type, (void)key, (void)extra;
  *(long *)out = (long)value * 2;
  *flag = 1;
  return MPI_SUCCESS;
}

static void attributes(void) {
  static int yes = 1, no = 0;
  int keys[3], flag;
  void *found;
  MPI_Comm twin;
  MPI_Comm_create_keyval(copy, forget, &keys[0], &yes);
  MPI_Comm_create_keyval(copy, forget, &keys[1], &no);
  MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &keys[2], NULL);
  MPI_Comm_set_attr(MPI_COMM_WORLD, keys[0], "first");
  MPI_Comm_set_attr(MPI_COMM_WORLD, keys[1], "second");
  MPI_Comm_set_attr(MPI_COMM_WORLD, keys[2], (void *)-5L);
  MPI_Comm_dup(MPI_COMM_WORLD, &twin);
  for (int i = 0; i < 3; i++) {
    MPI_Comm_get_attr(twin, keys[i], &found, &flag);
    if (i < 2) SAY("attribute %d: %s", i, flag ? (char *)found : "none");
    else SAY("attribute %d: %ld", i, flag ? (long)found : 0);
  }
  MPI_Comm_free(&twin);
  MPI_Comm_set_attr(MPI_COMM_WORLD, keys[0], "other");
  MPI_Comm_delete_attr(MPI_COMM_WORLD, keys[0]);
  MPI_Comm_set_attr(MPI_COMM_WORLD, keys[0], "stays");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  SAY("refused %d", MPI_Comm_delete_attr(MPI_COMM_WORLD, keys[0]) != MPI_SUCCESS);
  MPI_Comm_set_attr(MPI_COMM_SELF, keys[0], "at the end");
  MPI_Comm_free_keyval(&keys[0]);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &found, &flag);
  SAY("key %d, tags %d %d", keys[0] == MPI_KEYVAL_INVALID, flag, *(int *)found >= 32767);
  MPI_Datatype type, other;
  MPI_Type_create_keyval(type_copy, MPI_TYPE_NULL_DELETE_FN, &keys[0], NULL);
  MPI_Type_contiguous(3, MPI_INT, &type);
  MPI_Type_set_attr(type, keys[0], (void *)21L);
  MPI_Type_dup(type, &other);
  MPI_Type_get_attr(other, keys[0], &found, &flag);
  SAY("of a type: %d %ld", flag, (long)found);
  MPI_Type_free(&type);
  MPI_Type_free(&other);
}

/* --------------------------------------------------------------------------------------------------- error handlers */

static void told(MPI_Comm *comm, int *code, ...) {
  int class, size, sum, one = 1;
  MPI_Error_class(*code, &class);
  MPI_Comm_size(*comm, &size);
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
  SAY("handler: rank %d, tag %d, count %d, type %d, ranks %d", class == MPI_ERR_RANK, class == MPI_ERR_TAG,
      class == MPI_ERR_COUNT, class == MPI_ERR_TYPE, size + sum - 1);
}

static void away(MPI_Comm *comm, int *code, ...) {
  (void)comm;
  longjmp(back, *code);
}

static void handlers(void) {
  MPI_Errhandler handler, got;
  MPI_Comm half;
  int code, class, length, value = 0;
  char text[MPI_MAX_ERROR_STRING];
  MPI_Comm_split(MPI_COMM_WORLD, me % 2, me, &half);
  MPI_Comm_create_errhandler(told, &handler);
  MPI_Comm_set_errhandler(half, handler);
  MPI_Comm_get_errhandler(half, &got);
  SAY("same %d", got == handler);
  MPI_Errhandler_free(&handler);
  MPI_Errhandler_free(&got);
  MPI_Send(&value, 1, MPI_INT, 1000, 0, half);
  MPI_Recv(&value, 1, MPI_INT, 0, -7, half, MPI_STATUS_IGNORE);
  MPI_Bcast(&value, -1, MPI_INT, 0, half);
  MPI_Send(&value, 1, MPI_DATATYPE_NULL, 0, 0, half);
  SAY("called %d", MPI_Comm_call_errhandler(half, MPI_ERR_TAG));
  MPI_Comm_create_errhandler(away, &handler);
  MPI_Comm_set_errhandler(half, handler);
  for (volatile int i = 0; i < 3; i++) {
    code = setjmp(back);
    if (!code) MPI_Send(&value, 1, MPI_INT, -9, 0, half);
    MPI_Error_class(code, &class);
    SAY("jump %d: %d", i, class == MPI_ERR_RANK);
    MPI_Allreduce(&me, &value, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  }
  SAY("sum %d", value);
  MPI_Comm_free(&half);
  MPI_Add_error_class(&class);
  MPI_Add_error_code(class, &code);
  MPI_Add_error_string(code, "a code of the program");
  MPI_Error_string(code, text, &length);
  MPI_Error_class(code, &value);
  SAY("%s, %d, %d", text, length, value == class);
}

/* --------------------------------------------------------------------------------------------- generalized requests */

static int query(void *extra, MPI_Status *status) {
  MPI_Status_set_elements(status, MPI_INT, *(int *)extra);
  MPI_Status_set_cancelled(status, *(int *)extra == 8);
  status->MPI_SOURCE = 3, status->MPI_TAG = 4;
  return MPI_SUCCESS;
}

static int release(void *extra) {
  SAY("free %d", *(int *)extra);
  return MPI_SUCCESS;
}

static int cancel(void *extra, int complete) {
  SAY("cancel %d %d", *(int *)extra, complete);
  *(int *)extra = 8;
  return MPI_SUCCESS;
}

static void generalized(void) {
  MPI_Request requests[2];
  MPI_Status statuses[2];
  int extra[2] = {5, 6}, flag, count, cancelled;
  for (int i = 0; i < 2; i++) MPI_Grequest_start(query, release, cancel, &extra[i], &requests[i]);
  MPI_Testall(2, requests, &flag, statuses);
  SAY("all %d", flag);
  MPI_Cancel(&requests[1]);
  for (int i = 0; i < 2; i++) MPI_Grequest_complete(requests[i]);
  MPI_Waitall(2, requests, statuses);
  for (int i = 0; i < 2; i++) {
    MPI_Get_count(&statuses[i], MPI_INT, &count);
    MPI_Test_cancelled(&statuses[i], &cancelled);
    SAY("status %d %d %d %d", statuses[i].MPI_SOURCE, statuses[i].MPI_TAG, count, cancelled);
  }
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  operations();
  attributes();
  handlers();
  generalized();
  MPI_Finalize();
  return 0;
}
