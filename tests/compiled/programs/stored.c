/* Files of the C library on the simulated storage. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int me;
static void say(const char *what, long number) { printf("%d: %s %ld at %.9f\n", me, what, number, MPI_Wtime()); }

static void descriptors(void) {
  enum { SIZE = 1000000 };
  char name[30], *data = calloc(1, SIZE);
  struct stat status;
  snprintf(name, sizeof name, "state.%d", me);
  int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
  say("wrote", write(file, data, SIZE));
  say("wrote at", pwrite(file, "abc", 3, SIZE - 1));
  fsync(file);
  fstat(file, &status);
  say("size", status.st_size);
  say("end", lseek(file, -3, SEEK_END));
  say("read", read(file, data, SIZE));
  say("content", !memcmp(data, "abc", 3));
  say("read at", pread(file, data, 2, 0));
  ftruncate(file, 10);
  close(file);
  say("closed", read(file, data, 1) < 0 && errno == EBADF);
  stat(name, &status);
  say("size", status.st_size);
  say("missing", open("missing", O_RDONLY) < 0 && errno == ENOENT);
  free(data);
}

static void streams(void) {
  char name[30], text[30] = "";
  snprintf(name, sizeof name, "text.%d", me);
  FILE *file = fopen(name, "w");
  for (int i = 0; i < 10; i++) fprintf(file, "line %d\n", i);
  say("closed", fclose(file));
  file = fopen(name, "r");
  say("line", fgets(text, sizeof text, file) && !strcmp(text, "line 0\n"));
  say("line", fgets(text, sizeof text, file) && !strcmp(text, "line 1\n"));
  fclose(file);
  unlink(name);
  say("gone", fopen(name, "r") == NULL);
}

static void folders(void) {
  DIR *folder;
  if (me == 0) {
    mkdir("kept", 0755);
    rename("state.0", "kept/state");
    say("moved", access("kept/state", F_OK) == 0);
    folder = opendir("kept");
    for (struct dirent *each; (each = readdir(folder));) printf("%s %d\n", each->d_name, each->d_type == DT_REG);
    closedir(folder);
    truncate("kept/state", 5);
    say("not empty", rmdir("kept") != 0);
    remove("kept/state");
    say("empty", rmdir("kept"));
  }
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  descriptors();
  streams();
  MPI_Barrier(MPI_COMM_WORLD);
  folders();
  MPI_Finalize();
}
