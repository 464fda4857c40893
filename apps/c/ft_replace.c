/* Replace and restart: `MPIX_Comm_replace` and the checkpoint/restart routine of the ULFM tutorial, as apps/ft_replace.py.

   Heat spreads around a ring of rods, one per rank. Every few steps each rank sends its rod to its right neighbour, as a
   checkpoint in memory. The survivors of a failure revoke the communicator, spawn new processes, which take the ranks of
   the failed ones, and get their rods from the neighbours; all go back to the last checkpoint.

   The tutorial's routines have gaps that this one closes: an attempt to replace that meets another failure is abandoned
   by all (the new processes of it kill themselves, so they are failures like others) and begins again from the last
   communicator that all had; agreements are made on intracommunicators only, since no revocation wakes them.

   mpicc ft_replace.c -o ft_replace && mpirun --with-ft ulfm --oversubscribe -n 6 ./ft_replace 2 7
   xsim cc -g ft_replace.c -o ft_replace && xsim run -n 6 --ft ./ft_replace 2 7
   xsim run -n 6 --fail "rank=2 before its 20th Sendrecv" ./ft_replace */
#include <mpi.h>
#include <mpi-ext.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS = 8, STEPS = 30, EVERY = 5, RIGHT = 1, LEFT = 2, COPY = 3 };

struct checkpoint {
  int step; /* -1: none */
  double rod[CELLS];
};

/* A rank's own checkpoints, and copies of its left neighbour's: the last that all have, and one that may be incomplete. */
static struct checkpoint own[2] = {{-1}, {-1}}, copies[2] = {{-1}, {-1}};
static char **arguments;

/* ------------------------------------------------------------------------------------------------------------- replace */

/* Return whether all members of a communicator are well; failures that happened before are no obstacle. */
static int all_well(MPI_Comm comm, int well) {
  int flag = well;
  MPIX_Comm_failure_ack(comm);
  return MPIX_Comm_agree(comm, &flag) == MPI_SUCCESS && flag;
}

static MPI_Comm returning(MPI_Comm comm) {
  if (comm != MPI_COMM_NULL) MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  return comm;
}

static void give_up(MPI_Comm comm) {
  if (comm != MPI_COMM_NULL) MPIX_Comm_revoke(comm);
}

/* The ranks in `comm` of the members that are not in `living`. */
static int missing(MPI_Comm comm, MPI_Comm living, int *ranks) {
  MPI_Group everybody, alive, dead;
  int count;
  MPI_Comm_group(comm, &everybody);
  MPI_Comm_group(living, &alive);
  MPI_Group_difference(everybody, alive, &dead);
  MPI_Group_size(dead, &count);
  for (int i = 0; i < count; i++) MPI_Group_translate_ranks(dead, 1, &i, everybody, &ranks[i]);
  MPI_Group_free(&everybody);
  MPI_Group_free(&alive);
  MPI_Group_free(&dead);
  return count;
}

/* Return a communicator like `comm`, whose failed members are replaced by new processes with their ranks. */
static MPI_Comm replace(MPI_Comm comm) {
  int size, rank;
  MPI_Comm_size(comm, &size);
  MPI_Comm_rank(comm, &rank);
  int *dead = malloc((size_t)size * sizeof *dead);
  for (;;) {
    MPI_Comm living, inter = MPI_COMM_NULL, everybody = MPI_COMM_NULL, made = MPI_COMM_NULL;
    if (MPIX_Comm_shrink(comm, &living) != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 1);
    returning(living);
    int count = missing(comm, living, dead);
    if (!count) return free(dead), living;
    int started = MPI_Comm_spawn(arguments[0], MPI_ARGV_NULL, count, MPI_INFO_NULL, 0, living, &inter, MPI_ERRCODES_IGNORE);
    returning(inter);
    if (all_well(living, started == MPI_SUCCESS)) {
      int merged = MPI_Intercomm_merge(inter, 0, &everybody);
      returning(everybody);
      if (all_well(living, merged == MPI_SUCCESS)) {
        int told = MPI_Bcast(dead, count, MPI_INT, 0, everybody);
        int split = MPI_Comm_split(everybody, 0, rank, &made);
        returning(made);
        if (all_well(everybody, told == MPI_SUCCESS && split == MPI_SUCCESS)) return free(dead), made;
      }
    }
    give_up(inter);
    give_up(everybody);
    give_up(made);
  }
}

/* In a new process: return the communicator that it completes. It has one attempt. */
static MPI_Comm join(MPI_Comm parent) {
  int me, count;
  MPI_Comm everybody = MPI_COMM_NULL, made = MPI_COMM_NULL;
  returning(parent);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  int *ranks = malloc((size_t)count * sizeof *ranks);
  if (MPI_Intercomm_merge(parent, 1, &everybody) != MPI_SUCCESS) raise(SIGKILL);
  returning(everybody);
  if (MPI_Bcast(ranks, count, MPI_INT, 0, everybody) != MPI_SUCCESS) raise(SIGKILL);
  int split = MPI_Comm_split(everybody, 0, ranks[me], &made);
  returning(made);
  if (!all_well(everybody, split == MPI_SUCCESS)) raise(SIGKILL);
  return free(ranks), made;
}

/* ---------------------------------------------------------------------------------------------- checkpoint and restart */

static int last_step(const struct checkpoint *two) { return two[1].step > two[0].step ? two[1].step : two[0].step; }

static struct checkpoint *of_step(struct checkpoint *two, int step) {
  return two[0].step == step ? two : two[1].step == step ? two + 1 : NULL;
}

/* Every rank keeps its rod, and its right neighbour a copy; the old ones are dropped when all have the new ones. */
static int save(MPI_Comm comm, int step, const double *rod) {
  int rank, size, code;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  own[1].step = step;
  memcpy(own[1].rod, rod, sizeof own[1].rod);
  copies[1].step = -1;
  code = MPI_Sendrecv(own + 1, sizeof *own, MPI_BYTE, (rank + 1) % size, COPY, copies + 1, sizeof *copies, MPI_BYTE,
                      (rank + size - 1) % size, COPY, comm, MPI_STATUS_IGNORE);
  if (code != MPI_SUCCESS) return copies[1].step = -1, code;
  code = MPI_Barrier(comm);
  if (code != MPI_SUCCESS) return code;
  own[0] = own[1];
  copies[0] = copies[1];
  return MPI_SUCCESS;
}

/* Go back to the last step of which all rods are there: who has none gets a copy from the right neighbour. */
static int restart(MPI_Comm comm, int *step, double *rod) {
  int rank, size, code, held = last_step(copies), there, common, is_there, all_there, needs[2];
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  int right = (rank + 1) % size, left = (rank + size - 1) % size;
  code = MPI_Sendrecv(&held, 1, MPI_INT, left, COPY, &there, 1, MPI_INT, right, COPY, comm, MPI_STATUS_IGNORE);
  if (code != MPI_SUCCESS) return code;
  if (last_step(own) > there) there = last_step(own);
  /* A rank with a later step than another has not met that one at it, so it has the earlier one, too. */
  code = MPI_Allreduce(&there, &common, 1, MPI_INT, MPI_MIN, comm);
  if (code != MPI_SUCCESS) return code;
  if (common < 0) { /* nobody has computed yet, unless a rod and its copy are lost */
    code = MPI_Allreduce(&there, &all_there, 1, MPI_INT, MPI_MAX, comm);
    if (code != MPI_SUCCESS) return code;
    is_there = all_there < 0 || all_there == 0;
    *step = 0;
    memset(rod, 0, CELLS * sizeof *rod);
    if (rank == 0) rod[0] = 1000;
  } else {
    needs[0] = !of_step(own, common);
    code = MPI_Sendrecv(needs, 1, MPI_INT, right, COPY, needs + 1, 1, MPI_INT, left, COPY, comm, MPI_STATUS_IGNORE);
    if (code == MPI_SUCCESS && needs[1])
      code = MPI_Send(of_step(copies, common), sizeof *copies, MPI_BYTE, left, COPY, comm);
    if (code == MPI_SUCCESS && needs[0])
      code = MPI_Recv(own, sizeof *own, MPI_BYTE, right, COPY, comm, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) return code;
    is_there = 1;
    *step = common;
    memcpy(rod, of_step(own, common)->rod, CELLS * sizeof *rod);
  }
  if (!is_there) {
    fprintf(stderr, "a rod and its copy are lost\n");
    MPI_Abort(comm, 1);
  }
  return save(comm, *step, rod);
}

/* ------------------------------------------------------------------------------------------------------------ the rods */

static int advance(MPI_Comm comm, double *rod) {
  int rank, size;
  double wide[CELLS + 2];
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  int right = (rank + 1) % size, left = (rank + size - 1) % size;
  int code = MPI_Sendrecv(rod + CELLS - 1, 1, MPI_DOUBLE, right, RIGHT, wide, 1, MPI_DOUBLE, left, RIGHT, comm, MPI_STATUS_IGNORE);
  if (code != MPI_SUCCESS) return code;
  code = MPI_Sendrecv(rod, 1, MPI_DOUBLE, left, LEFT, wide + CELLS + 1, 1, MPI_DOUBLE, right, LEFT, comm, MPI_STATUS_IGNORE);
  if (code != MPI_SUCCESS) return code;
  memcpy(wide + 1, rod, CELLS * sizeof *rod);
  for (int i = 0; i < CELLS; i++) rod[i] += 0.25 * (wide[i] - 2 * wide[i + 1] + wide[i + 2]);
  return MPI_SUCCESS;
}

int main(int argc, char **argv) {
  int rank, size, step = 0, victim = argc > 2 ? atoi(argv[1]) : -1, at = argc > 2 ? atoi(argv[2]) : -1;
  double rod[CELLS], heat = 0, whole = 0, hottest = 0, top = 0;
  MPI_Comm comm, parent;
  arguments = argv;
  MPI_Init(&argc, &argv);
  MPI_Comm_get_parent(&parent);
  comm = parent == MPI_COMM_NULL ? returning(MPI_COMM_WORLD) : join(parent);
  MPI_Comm_rank(comm, &rank);
  for (int well = restart(comm, &step, rod) == MPI_SUCCESS;; well = restart(comm, &step, rod) == MPI_SUCCESS) {
    for (; well && step < STEPS; step++) {
      if (step % EVERY == 0 && own[0].step != step) well = save(comm, step, rod) == MPI_SUCCESS;
      if (rank == victim && step == at) raise(SIGKILL);
      well = well && advance(comm, rod) == MPI_SUCCESS;
      if (!well) break;
    }
    heat = hottest = 0;
    for (int i = 0; i < CELLS; i++) heat += rod[i], hottest = rod[i] > hottest ? rod[i] : hottest;
    well = well && MPI_Allreduce(&heat, &whole, 1, MPI_DOUBLE, MPI_SUM, comm) == MPI_SUCCESS &&
           MPI_Allreduce(&hottest, &top, 1, MPI_DOUBLE, MPI_MAX, comm) == MPI_SUCCESS;
    if (!well) MPIX_Comm_revoke(comm); /* wakes the others, who agree that not all are well */
    if (all_well(comm, well)) break;
    MPIX_Comm_revoke(comm);
    comm = replace(comm);
    victim = -1;
  }
  MPI_Comm_size(comm, &size);
  if (rank == 0) printf("%d ranks, heat %.3f, hottest %.6f\n", size, whole, top);
  MPI_Finalize();
  return 0;
}
