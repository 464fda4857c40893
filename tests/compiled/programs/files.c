/* Files: views, pointers of all kinds, blocking and nonblocking, split collectives, representations, errors. */
#include <mpi.h>
#include <stdio.h>

static int me, n;
static MPI_File file;

static void show(const char *what, const int *values, int count) {
  char line[200];
  int size = 0;
  for (int i = 0; i < count; i++) size += snprintf(line + size, sizeof line - size, " %d", values[i]);
  printf("%d: %s%s\n", me, what, line);
}

static int number_of(const MPI_Status *status) {
  int count;
  MPI_Get_count(status, MPI_INT, &count);
  return count;
}

static void views(void) {
  int mine[3] = {me, me + 10, me + 20}, got[3] = {-1, -1, -1};
  char name[MPI_MAX_DATAREP_STRING];
  MPI_Datatype part, etype, filetype;
  MPI_Offset displacement, position, bytes;
  MPI_Status status;
  MPI_Type_vector(3, 1, n, MPI_INT, &part);
  MPI_Type_commit(&part);
  MPI_File_set_view(file, me * sizeof(int), MPI_INT, part, "native", MPI_INFO_NULL);
  MPI_File_write_all(file, mine, 3, MPI_INT, &status);
  MPI_File_get_view(file, &displacement, &etype, &filetype, name);
  MPI_File_get_position(file, &position);
  MPI_File_get_byte_offset(file, 1, &bytes);
  printf("%d: wrote %d, view %d %s %d, position %d, byte %d\n", me, number_of(&status), (int)displacement, name,
         etype == MPI_INT, (int)position, (int)bytes);
  MPI_Type_free(&filetype);
  MPI_File_seek(file, -2, MPI_SEEK_CUR);
  MPI_File_read(file, got, 2, MPI_INT, &status);
  printf("%d: read %d\n", me, number_of(&status));
  show("view", got, 3);
  MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
  MPI_File_read_at_all(file, me, got, 3, MPI_INT, MPI_STATUS_IGNORE);
  show("flat", got, 3);
  MPI_Type_free(&part);
}

static void background(void) {
  int mine[2] = {me + 100, me + 200}, got[4] = {-1, -1, -1, -1};
  MPI_Datatype gaps;
  MPI_Request requests[2];
  MPI_Status statuses[2];
  MPI_Type_vector(2, 1, 3, MPI_INT, &gaps);
  MPI_Type_commit(&gaps);
  MPI_File_iwrite_at(file, 2 * me, mine, 2, MPI_INT, &requests[0]);
  MPI_Wait(&requests[0], &statuses[0]);
  MPI_File_sync(file);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_File_iread_at(file, 2 * me, got, 1, gaps, &requests[0]);
  MPI_File_iread_at_all(file, 0, mine, 1, MPI_INT, &requests[1]);
  MPI_Waitall(2, requests, statuses);
  printf("%d: background %d %d\n", me, number_of(&statuses[0]), number_of(&statuses[1]));
  show("gaps", got, 4);
  show("first", mine, 2);
  MPI_File_write_at_all_begin(file, 2 * me, got, 1, MPI_INT);
  MPI_File_write_at_all_end(file, got, &statuses[0]);
  MPI_File_read_all_begin(file, mine, 2, MPI_INT);
  MPI_File_read_all_end(file, mine, &statuses[1]);
  printf("%d: split %d %d\n", me, number_of(&statuses[0]), number_of(&statuses[1]));
  MPI_Type_free(&gaps);
}

static void shared(void) {
  int value = me + 1000, got = -1;
  MPI_Offset position;
  MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
  MPI_File_write_ordered(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE);
  MPI_File_get_position_shared(file, &position);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
  MPI_File_read_ordered(file, &got, 1, MPI_INT, MPI_STATUS_IGNORE);
  printf("%d: ordered %d, position %d\n", me, got, (int)position);
  MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
  MPI_File_read_shared(file, &got, 1, MPI_INT, MPI_STATUS_IGNORE);
  MPI_Barrier(MPI_COMM_WORLD);
}

static void representations(void) {
  int value = 0x01020304 + me, amode, atomic;
  unsigned char raw[4];
  MPI_Aint extent;
  MPI_Offset size;
  MPI_Group group;
  MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL);
  MPI_File_write_at(file, me, &value, 1, MPI_INT, MPI_STATUS_IGNORE);
  MPI_File_get_type_extent(file, MPI_INT, &extent);
  MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
  MPI_File_read_at(file, 4 * me, raw, 4, MPI_BYTE, MPI_STATUS_IGNORE);
  printf("%d: external %d %d %d %d, extent %d\n", me, raw[0], raw[1], raw[2], raw[3] - me, (int)extent);
  MPI_File_set_size(file, 400);
  MPI_File_get_size(file, &size);
  MPI_File_get_amode(file, &amode);
  MPI_File_get_group(file, &group);
  MPI_Group_free(&group);
  MPI_File_set_atomicity(file, 1);
  MPI_File_get_atomicity(file, &atomic);
  printf("%d: size %d, amode %d, atomic %d\n", me, (int)size, amode == (MPI_MODE_CREATE | MPI_MODE_RDWR), atomic);
}

int main(int argc, char **argv) {
  MPI_File missing;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  int code = MPI_File_open(MPI_COMM_WORLD, "missing", MPI_MODE_RDONLY, MPI_INFO_NULL, &missing);
  printf("%d: missing %d\n", me, code != MPI_SUCCESS);
  MPI_File_open(MPI_COMM_WORLD, "file.dat", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
  views();
  background();
  shared();
  representations();
  MPI_File_close(&file);
  printf("%d: closed %d\n", me, file == MPI_FILE_NULL);
  MPI_Barrier(MPI_COMM_WORLD);
  if (me == 0) MPI_File_delete("file.dat", MPI_INFO_NULL);
  MPI_Finalize();
  return 0;
}
