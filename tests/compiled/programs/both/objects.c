/* Statuses, requests, datatypes with gaps, packing, collectives in place, large counts, info objects, groups. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int me, n;
static char line[500];
#define SAY(...) (snprintf(line, sizeof line, __VA_ARGS__), dprintf(1, "%d: %s\n", me, line))

static void point_to_point(void) {
  int next = (me + 1) % n, last = (me + n - 1) % n, got[4] = {-1, -1, -1, -1}, flag, count, index, indices[4], done;
  MPI_Request requests[4];
  MPI_Status status, statuses[4];
  MPI_Message message;
  memset(statuses, 0x55, sizeof statuses);
  memset(&status, 0x55, sizeof status);
  for (int i = 0; i < 2; i++) MPI_Irecv(&got[i], 2 - i, MPI_INT, last, i, MPI_COMM_WORLD, &requests[i]);
  for (int i = 0; i < 2; i++) MPI_Isend(&me, 1, MPI_INT, next, i, MPI_COMM_WORLD, &requests[2 + i]);
  MPI_Waitall(4, requests, statuses);
  MPI_Get_count(&statuses[0], MPI_INT, &count);
  SAY("%d %d, from %d, tag %d, count %d, null %d", got[0], got[1], statuses[0].MPI_SOURCE, statuses[1].MPI_TAG, count,
      requests[0] == MPI_REQUEST_NULL);
  MPI_Send(&me, 1, MPI_INT, next, 9, MPI_COMM_WORLD);
  MPI_Recv(got, 4, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, MPI_DOUBLE, &count);
  SAY("error untouched %d, half an element %d", status.MPI_ERROR == 0x55555555, count == MPI_UNDEFINED);
  MPI_Recv(got, 4, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &status);
  SAY("null %d %d", status.MPI_SOURCE == MPI_PROC_NULL, status.MPI_TAG == MPI_ANY_TAG);
  MPI_Irecv(got, 1, MPI_INT, last, 77, MPI_COMM_WORLD, &requests[0]);
  MPI_Testany(1, requests, &index, &flag, &status);
  SAY("testany %d %d", index == MPI_UNDEFINED, flag);
  MPI_Cancel(&requests[0]);
  MPI_Wait(&requests[0], &status);
  MPI_Test_cancelled(&status, &flag);
  SAY("cancelled %d", flag);
  MPI_Waitsome(4, requests, &done, indices, statuses);
  MPI_Waitany(4, requests, &index, &status);
  SAY("none %d %d", done == MPI_UNDEFINED, index == MPI_UNDEFINED);
  MPI_Send_init(&me, 1, MPI_INT, next, 5, MPI_COMM_WORLD, &requests[0]);
  MPI_Recv_init(got, 1, MPI_INT, last, 5, MPI_COMM_WORLD, &requests[1]);
  for (int i = 0; i < 2; i++) {
    MPI_Startall(2, requests);
    for (int left = 2; left; left -= done) {
      MPI_Waitsome(2, requests, &done, indices, statuses);
      for (int k = 0; k < done; k++)
        if (indices[k] == 1) SAY("persistent %d from %d", got[0], statuses[k].MPI_SOURCE);
    }
  }
  for (int i = 0; i < 2; i++) MPI_Request_free(&requests[i]);
  MPI_Isend(&me, 1, MPI_INT, next, 6, MPI_COMM_WORLD, &requests[0]);
  MPI_Mprobe(last, 6, MPI_COMM_WORLD, &message, &status);
  MPI_Get_elements(&status, MPI_INT, &count);
  MPI_Mrecv(got, 1, MPI_INT, &message, &status);
  SAY("matched %d, %d elements, null %d", got[0], count, message == MPI_MESSAGE_NULL);
  MPI_Request_get_status(requests[0], &flag, MPI_STATUS_IGNORE);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  MPI_Improbe(last, 6, MPI_COMM_WORLD, &flag, &message, MPI_STATUS_IGNORE);
  SAY("no more %d", flag);
  got[0] = 10 * me;
  MPI_Sendrecv_replace(got, 1, MPI_INT, next, 1, last, 1, MPI_COMM_WORLD, &status);
  SAY("replaced %d", got[0]);
  char room[200 + MPI_BSEND_OVERHEAD];
  void *back;
  MPI_Buffer_attach(room, sizeof room);
  MPI_Bsend(&me, 1, MPI_INT, next, 2, MPI_COMM_WORLD);
  MPI_Recv(got, 1, MPI_INT, last, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Buffer_detach(&back, &count);
  SAY("buffer %d %d", back == room, count == (int)sizeof room);
}

static void errors(void) {
  int got[2] = {0, 0}, code, class, count, indices[2];
  MPI_Request requests[2];
  MPI_Status statuses[2];
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  for (int round = 0; round < 2; round++) {
    int two[2] = {1, 2};
    MPI_Irecv(&got[0], 1, MPI_INT, 0, 0, MPI_COMM_SELF, &requests[0]);
    MPI_Irecv(&got[1], 1, MPI_INT, 0, 1, MPI_COMM_SELF, &requests[1]);
    MPI_Send(two, 1, MPI_INT, 0, 1, MPI_COMM_SELF);
    MPI_Send(two, 2, MPI_INT, 0, 0, MPI_COMM_SELF);
    for (int i = 0, flag = 0; round && i < 2; flag = 0, i++)
      while (!flag) MPI_Request_get_status(requests[i], &flag, MPI_STATUS_IGNORE);
    if (round) code = MPI_Waitsome(2, requests, &count, indices, statuses);
    else code = MPI_Waitall(2, requests, statuses), count = 2;
    MPI_Error_class(code, &class);
    int first, second;
    MPI_Error_class(statuses[0].MPI_ERROR, &first);
    MPI_Error_class(statuses[1].MPI_ERROR, &second);
    SAY("in status %d, %d of them, truncated %d, null %d", class == MPI_ERR_IN_STATUS, count,
        first == MPI_ERR_TRUNCATE, requests[0] == MPI_REQUEST_NULL);
    if (round) SAY("fine %d, null %d", second == MPI_SUCCESS, requests[1] == MPI_REQUEST_NULL);
    else MPI_Wait(&requests[1], MPI_STATUS_IGNORE); /* MPICH returns as soon as the first one has failed */
  }
}

static void datatypes(void) {
  struct part { int i; char c; double d; } parts[3], got[3];
  int lengths[3] = {1, 1, 1}, integers, addresses, types, combiner, position = 0, size, count;
  MPI_Aint places[3] = {0, 4, 8}, lb, extent;
  MPI_Datatype members[3] = {MPI_INT, MPI_CHAR, MPI_DOUBLE}, whole, every, block, copy;
  MPI_Count large_integers, large_addresses, large_counts, large_types;
  MPI_Status status;
  char packed[200], name[MPI_MAX_OBJECT_NAME];
  memset(parts, 1, sizeof parts), memset(got, 2, sizeof got);
  for (int i = 0; i < 3; i++) parts[i].i = 100 * me + i, parts[i].c = 'a' + (char)i, parts[i].d = i / 2.;
  MPI_Type_create_struct(3, lengths, places, members, &whole);
  MPI_Type_vector(2, 1, 2, whole, &every);
  MPI_Type_commit(&every);
  MPI_Type_get_extent(every, &lb, &extent);
  MPI_Type_size(every, &size);
  SAY("extent %ld, size %d", (long)extent, size);
  MPI_Sendrecv(parts, 1, every, (me + 1) % n, 0, got, 1, every, (me + n - 1) % n, 0, MPI_COMM_WORLD, &status);
  MPI_Get_elements(&status, every, &count);
  SAY("got %d %c %g, %d %c %g, gap %d %d, elements %d", got[0].i, got[0].c, got[0].d, got[2].i, got[2].c, got[2].d,
      got[1].i == 0x02020202, ((char *)&got[0])[6], count);
  MPI_Pack(parts, 1, every, packed, sizeof packed, &position, MPI_COMM_WORLD);
  MPI_Pack(&me, 1, MPI_INT, packed, sizeof packed, &position, MPI_COMM_WORLD);
  SAY("packed %d", position);
  position = 26, count = -1;
  MPI_Unpack(packed, sizeof packed, &position, &count, 1, MPI_INT, MPI_COMM_WORLD);
  SAY("unpacked %d up to %d", count, position);
  MPI_Aint outside = 0;
  MPI_Pack_external("external32", &me, 1, MPI_INT, packed, sizeof packed, &outside);
  SAY("external %d %d, %ld", packed[0], packed[3], (long)outside);
  MPI_Type_get_envelope(whole, &integers, &addresses, &types, &combiner);
  SAY("struct %d %d %d %d", integers, addresses, types, combiner == MPI_COMBINER_STRUCT);
  int of[4];
  MPI_Aint at[3];
  MPI_Datatype from[3];
  MPI_Type_get_contents(whole, 4, 3, 3, of, at, from);
  SAY("contents %d %d %ld %d", of[0], of[3], (long)at[2], from[2] == MPI_DOUBLE);
  MPI_Type_get_contents(every, 3, 0, 1, of, at, from);
  SAY("vector %d %d %d", of[0], of[1], of[2]);
  MPI_Type_free(&from[0]);
  MPI_Type_vector_c(3, 1, 2, MPI_INT, &block);
  MPI_Type_get_envelope_c(block, &large_integers, &large_addresses, &large_counts, &large_types, &combiner);
  SAY("large %ld %ld %ld %ld", (long)large_integers, (long)large_addresses, (long)large_counts, (long)large_types);
  int sizes[2] = {4, 3}, subsizes[2] = {2, 2}, starts[2] = {1, 1};
  MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &copy);
  MPI_Type_get_envelope(copy, &integers, &addresses, &types, &combiner);
  MPI_Type_set_name(copy, "a box");
  MPI_Type_get_name(copy, name, &size);
  SAY("subarray %d %d, %s %d", integers, addresses, name, size);
  MPI_Type_free(&copy);
  MPI_Type_create_hindexed_block(2, 1, places, MPI_INT, &copy);
  MPI_Type_get_envelope(copy, &integers, &addresses, &types, &combiner);
  SAY("hindexed block %d %d", integers, addresses);
  MPI_Type_free(&copy), MPI_Type_free(&block), MPI_Type_free(&every), MPI_Type_free(&whole);
  MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &copy);
  MPI_Type_get_name(copy, name, &size);
  SAY("matched %d", size > 0);
  MPI_Info info;
  int given = sizeof name, is_set;
  MPI_Type_match_size(MPI_TYPECLASS_REAL, 2, &copy);
  MPI_Abi_get_fortran_info(&info);
  MPI_Info_get_string(info, "mpi_logical1_supported", &given, name, &is_set);
  SAY("%d, logical1 %s", copy == MPI_REAL2, name);
  MPI_Info_free(&info);
}

static void collectives(void) {
  int *all = malloc(sizeof(int) * (size_t)n * 4), counts[64], places[64], sum = me + 1, result[3];
  MPI_Request request;
  MPI_Datatype spread, row;
  MPI_Count large_counts[64];
  MPI_Aint large_places[64];
  all[me] = me * me;
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, 1, MPI_INT, MPI_COMM_WORLD);
  SAY("allgather %d %d", all[0], all[n - 1]);
  MPI_Reduce(me ? &sum : MPI_IN_PLACE, me ? NULL : &sum, 1, MPI_INT, MPI_PROD, 0, MPI_COMM_WORLD);
  if (!me) SAY("reduce %d", sum);
  for (int i = 0; i < n; i++) counts[i] = i + 1, places[i] = i * (i + 1) / 2 + i;
  for (int i = 0; i < 4 * n; i++) all[i] = -1;
  int mine[64];
  for (int i = 0; i <= me; i++) mine[i] = 10 * me + i;
  MPI_Gatherv(mine, me + 1, MPI_INT, all, counts, places, MPI_INT, 1, MPI_COMM_WORLD);
  if (me == 1) SAY("gatherv %d %d %d %d %d", all[0], all[1], all[2], all[3], all[4]);
  MPI_Type_create_resized(MPI_INT, 0, 8, &spread);
  MPI_Type_commit(&spread);
  for (int i = 0; i < 4 * n; i++) all[i] = -1;
  MPI_Ialltoall(mine, 0, MPI_INT, all, 0, spread, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (int i = 0; i < n; i++) large_counts[i] = 1, large_places[i] = n - 1 - i;
  MPI_Allgatherv_c(&me, 1, MPI_INT, all, large_counts, large_places, spread, MPI_COMM_WORLD);
  SAY("backwards %d %d %d", all[0], all[1], all[2]);
  MPI_Type_contiguous(2, MPI_INT, &row);
  MPI_Type_commit(&row);
  int two[2] = {me, -me}, full[128];
  MPI_Gather(two, 2, MPI_INT, full, 1, row, 0, MPI_COMM_WORLD);
  if (!me) SAY("gather %d %d", full[2], full[3]);
  for (int i = 0; i < n; i++) mine[i] = me + i;
  MPI_Reduce_scatter_block(MPI_IN_PLACE, mine, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  SAY("reduce_scatter_block %d", mine[0]);
  for (int i = 0; i < n; i++) mine[i] = me + i, counts[i] = i == 1 ? n : 0;
  MPI_Reduce_scatter(mine, all, counts, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (me == 1) SAY("reduce_scatter %d %d", all[0], all[1]);
  result[0] = -5;
  MPI_Exscan(&me, result, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  SAY("exscan %d", result[0]);
  struct { double value; int index; } best = {-(me - 1) * (me - 1), me}, found;
  MPI_Allreduce(&best, &found, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
  SAY("maxloc %g %d", found.value, found.index);
  MPI_Bcast_init(result, 1, MPI_INT, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  result[0] = me;
  MPI_Start(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Request_free(&request);
  SAY("bcast %d", result[0]);
  MPI_Type_free(&spread), MPI_Type_free(&row);
  free(all);
}

static void others(void) {
  MPI_Info info, twin;
  MPI_Group world, odd, range;
  MPI_Comm split, inter, merged;
  char value[20] = "", key[MPI_MAX_INFO_KEY], name[MPI_MAX_OBJECT_NAME];
  int flag, length = 5, count, ranks[3] = {0, 1, 2}, to[3], result, size;
  MPI_Info_create(&info);
  MPI_Info_set(info, "colour", "ultramarine");
  MPI_Info_set(info, "size", "9");
  MPI_Info_get_string(info, "colour", &length, value, &flag);
  MPI_Info_dup(info, &twin);
  MPI_Info_delete(twin, "colour");
  MPI_Info_get_nkeys(twin, &count);
  MPI_Info_get_nthkey(twin, 0, key);
  SAY("info %s %d %d, %d %s", value, length, flag, count, key);
  MPI_Info_get_string(info, "weight", &length, value, &flag);
  SAY("no key %d", flag);
  MPI_Info_free(&info), MPI_Info_free(&twin);
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  int triplets[1][3] = {{0, 2, 2}};
  MPI_Group_range_incl(world, 1, triplets, &range);
  MPI_Group_difference(world, range, &odd);
  MPI_Group_translate_ranks(world, 3, ranks, range, to);
  MPI_Group_compare(range, odd, &result);
  MPI_Group_rank(range, &size);
  SAY("groups %d %d %d, %d, rank %d", to[0], to[1] == MPI_UNDEFINED, to[2], result == MPI_UNEQUAL,
      size == MPI_UNDEFINED ? -1 : size);
  MPI_Comm_create(MPI_COMM_WORLD, range, &split);
  SAY("member %d", split != MPI_COMM_NULL);
  if (split != MPI_COMM_NULL) MPI_Comm_free(&split);
  MPI_Group_free(&world), MPI_Group_free(&odd), MPI_Group_free(&range);
  MPI_Comm_split(MPI_COMM_WORLD, me == 0, 0, &split);
  MPI_Comm_set_name(split, "a part");
  MPI_Comm_get_name(split, name, &length);
  MPI_Intercomm_create(split, 0, MPI_COMM_WORLD, me == 0 ? 1 : 0, 8, &inter);
  MPI_Comm_remote_size(inter, &size);
  MPI_Comm_test_inter(inter, &flag);
  MPI_Intercomm_merge(inter, me == 0, &merged);
  MPI_Comm_rank(merged, &result);
  SAY("%s %d, inter %d %d, merged %d", name, length, flag, size, result);
  MPI_Comm_compare(MPI_COMM_WORLD, merged, &result);
  MPI_Topo_test(merged, &flag);
  SAY("compared %d, topology %d", result == MPI_SIMILAR, flag == MPI_UNDEFINED);
  MPI_Comm_free(&split), MPI_Comm_free(&inter), MPI_Comm_free(&merged);
  MPI_Aint address;
  MPI_Get_address(&me, &address);
  SAY("address %d %d", address == (MPI_Aint)&me, MPI_Aint_diff(MPI_Aint_add(address, 12), address) == 12);
  SAY("handles %d", MPI_Comm_fromint(MPI_Comm_toint(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
  MPI_T_init_thread(MPI_THREAD_SINGLE, &flag);
  MPI_T_finalize();
}

int main(int argc, char **argv) {
  int before, after;
  MPI_Initialized(&before);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  point_to_point();
  errors();
  datatypes();
  collectives();
  others();
  MPI_Finalize();
  MPI_Finalized(&after);
  SAY("initialized %d, finalized %d, descriptors %d %d", before, after, fileno(stdout), fileno(stderr));
  return 0;
}
