/* Windows of all flavours, operations and synchronisation. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int me, n;

static void show(const char *what, const int *values, int count) {
  char line[200];
  int size = 0;
  for (int i = 0; i < count; i++) size += snprintf(line + size, sizeof line - size, " %d", values[i]);
  printf("%d: %s%s\n", me, what, line);
}

static void fences(void) {
  int mine[8] = {0}, got = -1, right = (me + 1) % n, value = 10 * me;
  MPI_Datatype odd;
  MPI_Win win;
  MPI_Type_vector(3, 1, 2, MPI_INT, &odd);
  MPI_Type_commit(&odd);
  MPI_Win_create(mine, sizeof mine, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  MPI_Win_fence(0, win);
  MPI_Put(&value, 1, MPI_INT, right, 0, 1, MPI_INT, win);
  int three[3] = {me, me + 1, me + 2};
  MPI_Put(three, 3, MPI_INT, right, 1, 1, odd, win);
  MPI_Accumulate(&value, 1, MPI_INT, right, 7, 1, MPI_INT, MPI_SUM, win);
  MPI_Win_fence(0, win);
  MPI_Get(&got, 1, MPI_INT, right, 3, 1, MPI_INT, win);
  MPI_Accumulate(three, 3, MPI_INT, right, 2, 1, odd, MPI_MAX, win);
  MPI_Win_fence(0, win);
  show("fence", mine, 8);
  show("got", &got, 1);
  MPI_Win_free(&win);
  MPI_Type_free(&odd);
  if (win != MPI_WIN_NULL || odd != MPI_DATATYPE_NULL) printf("%d: a handle is not null\n", me);
}

static void locks(void) {
  int *base, one = 1, before = -1, swapped = -1, zero = 0, hundred = 100, fetched[2] = {-1, -1}, fives[2] = {5, 5};
  MPI_Aint *size;
  int *unit, *flavor, *model, flag;
  void *start;
  MPI_Request request;
  MPI_Win win;
  MPI_Win_allocate(4 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
  MPI_Win_get_attr(win, MPI_WIN_BASE, &start, &flag);
  MPI_Win_get_attr(win, MPI_WIN_SIZE, &size, &flag);
  MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &unit, &flag);
  MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &flavor, &flag);
  MPI_Win_get_attr(win, MPI_WIN_MODEL, &model, &flag);
  printf("%d: attributes %d %d %d %d %d %d\n", me, start == base, (int)*size, *unit, *flavor == MPI_WIN_FLAVOR_ALLOCATE,
         *model == MPI_WIN_UNIFIED, flag);
  memset(base, 0, 4 * sizeof(int));
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, win);
  MPI_Fetch_and_op(&one, &before, MPI_INT, 0, 0, MPI_SUM, win);
  MPI_Compare_and_swap(&hundred, &zero, &swapped, MPI_INT, me, 1, win);
  MPI_Win_flush_all(win);
  MPI_Rput(&me, 1, MPI_INT, (me + 1) % n, 2, 1, MPI_INT, win, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Win_flush((me + 1) % n, win);
  MPI_Rget_accumulate(fives, 2, MPI_INT, fetched, 2, MPI_INT, me, 0, 2, MPI_INT, MPI_SUM, win, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Win_unlock_all(win);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
  MPI_Get_accumulate(NULL, 0, MPI_DATATYPE_NULL, fetched, 2, MPI_INT, 0, 2, 2, MPI_INT, MPI_NO_OP, win);
  MPI_Win_unlock(0, win);
  show("allocated", base, 4);
  show("fetched", fetched, 2);
  printf("%d: swapped %d, before %d\n", me, swapped, before >= 0 && before < n + 5);
  MPI_Win_free(&win);
}

static void posts(void) {
  int window[2] = {-1, -1}, left = (me + n - 1) % n, right = (me + 1) % n;
  MPI_Group all, origin, target;
  MPI_Win win;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_incl(all, 1, &left, &origin);
  MPI_Group_incl(all, 1, &right, &target);
  MPI_Win_create(window, sizeof window, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  MPI_Win_post(origin, 0, win);
  MPI_Win_start(target, 0, win);
  MPI_Put(&me, 1, MPI_INT, right, 1, 1, MPI_INT, win);
  MPI_Win_complete(win);
  MPI_Win_wait(win);
  show("posted", window, 2);
  MPI_Win_free(&win);
  MPI_Group_free(&all);
  MPI_Group_free(&origin);
  MPI_Group_free(&target);
}

/* Each rank operates on its own memory: addresses differ from run to run, and messages with them would have too. */
static void dynamic(void) {
  int attached[4] = {0, 0, 0, 0}, value = me + 1;
  MPI_Win win;
  MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  MPI_Win_attach(win, attached, sizeof attached);
  MPI_Win_fence(0, win);
  MPI_Put(&value, 1, MPI_INT, me, (MPI_Aint)&attached[2], 1, MPI_INT, win);
  MPI_Win_fence(0, win);
  show("attached", attached, 4);
  MPI_Win_detach(win, attached);
  MPI_Win_free(&win);
}

static void shared(void) {
  int *mine, *theirs, unit, node_rank, node_size;
  MPI_Aint size;
  MPI_Comm node;
  MPI_Win win;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &node_rank);
  MPI_Comm_size(node, &node_size);
  MPI_Win_allocate_shared(3 * sizeof(int), sizeof(int), MPI_INFO_NULL, node, &mine, &win);
  MPI_Win_lock_all(0, win);
  mine[1] = 100 + node_rank;
  MPI_Win_sync(win);
  MPI_Barrier(node);
  MPI_Win_sync(win);
  MPI_Win_shared_query(win, (node_rank + 1) % node_size, &size, &unit, &theirs);
  theirs[2] = theirs[1] + 100;
  MPI_Win_sync(win);
  MPI_Barrier(node);
  MPI_Put(&node_rank, 1, MPI_INT, (node_rank + 1) % node_size, 0, 1, MPI_INT, win);
  MPI_Win_unlock_all(win);
  MPI_Barrier(node);
  printf("%d: size %d, unit %d\n", me, (int)size, unit);
  show("shared", mine, 3);
  MPI_Win_free(&win);
  MPI_Comm_free(&node);
}

static void handle(MPI_Win *win, int *code, ...) {
  int class, rank;
  MPI_Group group;
  MPI_Error_class(*code, &class);
  MPI_Win_get_group(*win, &group);
  MPI_Group_rank(group, &rank);
  MPI_Group_free(&group);
  printf("%d: handled %d on rank %d\n", me, class == MPI_ERR_RANK, rank);
}

static void errors(void) {
  int value = 0, code, class;
  MPI_Errhandler handler;
  MPI_Win win;
  MPI_Win_create(&value, sizeof value, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  MPI_Win_create_errhandler(handle, &handler);
  MPI_Win_set_errhandler(win, handler);
  MPI_Errhandler_free(&handler);
  MPI_Win_fence(0, win);
  MPI_Put(&value, 1, MPI_INT, n, 0, 1, MPI_INT, win);
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  code = MPI_Put(&value, 1, MPI_INT, n, 0, 1, MPI_INT, win);
  MPI_Error_class(code, &class);
  printf("%d: returned %d\n", me, class == MPI_ERR_RANK);
  MPI_Win_fence(0, win);
  MPI_Win_free(&win);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  fences();
  locks();
  posts();
  dynamic();
  shared();
  errors();
  MPI_Finalize();
  return 0;
}
