/* Files of the C library on the simulated storage, if the machine has one, as those of a rank in Python: the simulator has
   the contents (see files.py), and their descriptors are numbers that the operating system does not know. All other files
   are the host's. The devices of random numbers are virtual, too. */
#define _GNU_SOURCE
#include "runtime.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define SAME(type, name, other, parameters) type name parameters __attribute__((alias(#other)))

enum { FIRST = 1 << 30 }; /* open_files.py */
enum operation { BLOCK, OPEN, CLOSE, READ, WRITE, SEEK, SYNC, RESIZE, STATUS, /* files.py */
                 STAT, ACCESS, REMOVE, RMDIR, MKDIR, RENAME, TRUNCATE, NAMES };
enum { OUTSIDE = -ENOSYS }; /* the path is not on the storage */

/* Return where the program, rather than a library that it uses, has made the current call. */
static void *site(void) {
  void *frames[32];
  Dl_info program, each;
  int count = backtrace(frames, 32);
  if (!dladdr((void *)getauxval(AT_ENTRY), &program)) return NULL;
  for (int i = 0; i < count; i++)
    if (dladdr(frames[i], &each) && each.dli_fbase == program.dli_fbase) return frames[i];
  return NULL;
}

static int64_t ask(enum operation what, int64_t a, int64_t b, int64_t c, int64_t d) {
  int64_t given[] = {what, a, b, c, d};
  if (!xsim_page || xsim_is_inside()) return -EBADF;
  return xsim_call(XSIM_FILE, 5, given, what == BLOCK ? NULL : site());
}

static int64_t result(int64_t found) {
  if (found >= 0) return found;
  errno = (int)-found;
  return -1;
}

/* Return the size of a stream's buffer, 0 without a storage. */
static size_t block_bytes(void) {
  static int64_t block = -1;
  if (!xsim_page || xsim_is_inside()) return 0;
  if (block < 0) block = ask(BLOCK, 0, 0, 0, 0);
  return (size_t)block;
}

static const char *absolute(const char *path, char *room) {
  if (*path == '/' || strlen(path) > PATH_MAX || !getcwd(room, PATH_MAX)) return path;
  return strcat(strcat(room, "/"), path);
}

static int64_t at_path(enum operation what, const char *path, int64_t a, int64_t b) {
  char room[2 * PATH_MAX + 2];
  if (!path || !*path || !block_bytes()) return OUTSIDE;
  return ask(what, L(absolute(path, room)), a, b, 0);
}

/* ------------------------------------------------------------------------------------------------------------ random */

static int is_device(const char *path) {
  return xsim_page && (!strcmp(path, "/dev/urandom") || !strcmp(path, "/dev/random"));
}

static unsigned char draws[1024]; /* by descriptor: whether it is a device of random numbers */

static int note_device(int file, const char *path) {
  if (file < 0 || file >= (int)sizeof draws) return file;
  draws[file] = (unsigned char)is_device(path);
  return file;
}

static int is_random(int file) { return file >= 0 && file < (int)sizeof draws && draws[file]; }

/* ------------------------------------------------------------------------------------------------------- descriptors */

static int open_at(int folder, const char *path, int flags, mode_t mode) {
  int64_t found = folder == AT_FDCWD || (path && *path == '/') ? at_path(OPEN, path, flags, 0) : OUTSIDE;
  if (found != OUTSIDE) return (int)result(found);
  return note_device((int)syscall(SYS_openat, folder, path, flags, mode), path);
}

#define OPENING(name, before, folder, ...) \
  int name(before const char *path, int flags, ...) { \
    va_list rest; \
    va_start(rest, flags); \
    mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
    va_end(rest); \
    return open_at(folder, path, flags, mode); \
  }
#define FOLDER int folder,
#define NONE
OPENING(open, NONE, AT_FDCWD)
OPENING(open64, NONE, AT_FDCWD)
OPENING(openat, FOLDER, folder)
OPENING(openat64, FOLDER, folder)
int __open_2(const char *path, int flags) { return open_at(AT_FDCWD, path, flags, 0); }
SAME(int, __open64_2, __open_2, (const char *path, int flags));
int creat(const char *path, mode_t mode) { return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
SAME(int, creat64, creat, (const char *path, mode_t mode));

static ssize_t read_at(int file, void *to, size_t size, off_t from) {
  if (file >= FIRST) return result(ask(READ, file, L(to), L(size), from));
  if (xsim_is_socket(file)) return recv(file, to, size, 0);
  return from < 0 ? syscall(SYS_read, file, to, size) : syscall(SYS_pread64, file, to, size, from);
}

ssize_t read(int file, void *to, size_t size) {
  if (is_random(file)) return getrandom(to, size, 0);
  return read_at(file, to, size, -1);
}
ssize_t __read_chk(int file, void *to, size_t size, size_t room) { return size > room ? (abort(), -1) : read(file, to, size); }

ssize_t pread(int file, void *to, size_t size, off_t from) {
  if (from < 0) return result(-EINVAL);
  return is_random(file) ? getrandom(to, size, 0) : read_at(file, to, size, from);
}
SAME(ssize_t, pread64, pread, (int file, void *to, size_t size, off_t from));

static ssize_t write_at(int file, const void *from, size_t size, off_t to) {
  if (file >= FIRST) return result(ask(WRITE, file, L(from), L(size), to));
  if (xsim_is_socket(file)) return send(file, from, size, 0);
  return to < 0 ? syscall(SYS_write, file, from, size) : syscall(SYS_pwrite64, file, from, size, to);
}

ssize_t write(int file, const void *from, size_t size) {
  xsim_before_output(file);
  return write_at(file, from, size, -1);
}

ssize_t pwrite(int file, const void *from, size_t size, off_t to) {
  return to < 0 ? result(-EINVAL) : write_at(file, from, size, to);
}
SAME(ssize_t, pwrite64, pwrite, (int file, const void *from, size_t size, off_t to));

/* As one operation: what is written is gathered first. */
ssize_t writev(int file, const struct iovec *parts, int count) {
  xsim_before_output(file);
  if (file < FIRST && !xsim_is_socket(file)) return syscall(SYS_writev, file, parts, count);
  size_t size = 0;
  for (int i = 0; i < count; i++) size += parts[i].iov_len;
  char *whole = malloc(size + 1), *at = whole;
  if (!whole) return result(-ENOMEM);
  for (int i = 0; i < count; i++) at = mempcpy(at, parts[i].iov_base, parts[i].iov_len);
  ssize_t done = write_at(file, whole, size, -1);
  free(whole);
  return done;
}

ssize_t readv(int file, const struct iovec *parts, int count) {
  if (xsim_is_socket(file)) return recvmsg(file, &(struct msghdr){.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count}, 0);
  if (file < FIRST && !is_random(file)) return syscall(SYS_readv, file, parts, count);
  ssize_t done = 0, got;
  for (int i = 0; i < count; i++, done += got) {
    got = is_random(file) ? getrandom(parts[i].iov_base, parts[i].iov_len, 0)
                          : read_at(file, parts[i].iov_base, parts[i].iov_len, -1);
    if (got < (ssize_t)parts[i].iov_len) return got < 0 ? done ? done : got : done + got;
  }
  return done;
}

off_t lseek(int file, off_t offset, int whence) {
  if (file >= FIRST) return result(ask(SEEK, file, offset, whence, 0));
  return syscall(SYS_lseek, file, offset, whence);
}
SAME(off_t, lseek64, lseek, (int file, off_t offset, int whence));

int close(int file) {
  if (is_random(file)) draws[file] = 0;
  if (xsim_is_socket(file)) {
    xsim_await(file, 0, 0, __builtin_return_address(0));
    int done = (int)syscall(SYS_close, file);
    xsim_call(XSIM_TELL, 0, NULL, __builtin_return_address(0));
    return done;
  }
  return (int)(file >= FIRST ? result(ask(CLOSE, file, 0, 0, 0)) : syscall(SYS_close, file));
}

int fsync(int file) {
  return (int)(file >= FIRST ? result(ask(SYNC, file, 0, 0, 0)) : syscall(SYS_fsync, file));
}
int fdatasync(int file) {
  return (int)(file >= FIRST ? result(ask(SYNC, file, 0, 0, 0)) : syscall(SYS_fdatasync, file));
}

int ftruncate(int file, off_t size) {
  return (int)(file >= FIRST ? result(ask(RESIZE, file, size, 0, 0)) : syscall(SYS_ftruncate, file, size));
}
SAME(int, ftruncate64, ftruncate, (int file, off_t size));

/* Without locks, libraries such as HDF5 go on. */
int flock(int file, int how) { return (int)(file >= FIRST ? result(-ENOSYS) : syscall(SYS_flock, file, how)); }

/* ------------------------------------------------------------------------------------------------------------ status */

static int status(int64_t found, const int64_t *values, struct stat *s) {
  if (found < 0) return (int)result(found);
  struct timespec time = {values[5], values[6]};
  memset(s, 0, sizeof *s);
  s->st_mode = (mode_t)values[0];
  s->st_ino = (ino_t)values[1];
  s->st_dev = (dev_t)values[2];
  s->st_nlink = (nlink_t)values[3];
  s->st_size = values[4];
  s->st_uid = getuid();
  s->st_gid = getgid();
  s->st_blksize = (blksize_t)block_bytes();
  s->st_blocks = (s->st_size + 511) / 512;
  s->st_atim = s->st_mtim = s->st_ctim = time;
  return 0;
}

int fstatat(int folder, const char *restrict path, struct stat *restrict s, int flags) {
  int64_t values[7], found = OUTSIDE;
  if (folder == AT_FDCWD || *path == '/')
    found = at_path(STAT, path, L(values), !(flags & AT_SYMLINK_NOFOLLOW));
  return found == OUTSIDE ? REAL(fstatat, folder, path, s, flags) : status(found, values, s);
}
int stat(const char *restrict path, struct stat *restrict s) { return fstatat(AT_FDCWD, path, s, 0); }
int lstat(const char *restrict path, struct stat *restrict s) { return fstatat(AT_FDCWD, path, s, AT_SYMLINK_NOFOLLOW); }
int fstat(int file, struct stat *s) {
  int64_t values[7];
  return file < FIRST ? REAL(fstat, file, s) : status(ask(STATUS, file, L(values), 0, 0), values, s);
}

/* Names of these for programs built with other versions of the C library, or for large files. */
int fstatat64(int folder, const char *restrict path, struct stat64 *restrict s, int flags) {
  return fstatat(folder, path, (struct stat *)s, flags);
}
int stat64(const char *restrict path, struct stat64 *restrict s) { return stat(path, (struct stat *)s); }
int lstat64(const char *restrict path, struct stat64 *restrict s) { return lstat(path, (struct stat *)s); }
int fstat64(int file, struct stat64 *s) { return fstat(file, (struct stat *)s); }
int __xstat(int version, const char *path, struct stat *s) { return (void)version, stat(path, s); }
int __lxstat(int version, const char *path, struct stat *s) { return (void)version, lstat(path, s); }
int __fxstat(int version, int file, struct stat *s) { return (void)version, fstat(file, s); }
int __fxstatat(int version, int folder, const char *path, struct stat *s, int flags) {
  return (void)version, fstatat(folder, path, s, flags);
}
SAME(int, __xstat64, __xstat, (int version, const char *path, struct stat *s));
SAME(int, __lxstat64, __lxstat, (int version, const char *path, struct stat *s));
SAME(int, __fxstat64, __fxstat, (int version, int file, struct stat *s));
SAME(int, __fxstatat64, __fxstatat, (int version, int folder, const char *path, struct stat *s, int flags));

/* ------------------------------------------------------------------------------------------------------------- paths */

#define PATHS(name, what, a, parameters, ...) \
  int name parameters { \
    int64_t found = at_path(what, path, a, 0); \
    return found == OUTSIDE ? REAL(name, __VA_ARGS__) : (int)result(found); \
  }
PATHS(access, ACCESS, mode, (const char *path, int mode), path, mode)
PATHS(unlink, REMOVE, 0, (const char *path), path)
PATHS(rmdir, RMDIR, 0, (const char *path), path)
PATHS(mkdir, MKDIR, 0, (const char *path, mode_t mode), path, mode)
PATHS(truncate, TRUNCATE, size, (const char *path, off_t size), path, size)
SAME(int, truncate64, truncate, (const char *path, off_t size));

int remove(const char *path) {
  int64_t found = at_path(REMOVE, path, 0, 0);
  if (found == OUTSIDE) return REAL(remove, path);
  return (int)result(found == -EISDIR ? at_path(RMDIR, path, 0, 0) : found);
}

int rename(const char *path, const char *to) {
  char room[2 * PATH_MAX + 2];
  int64_t found = to && *to ? at_path(RENAME, path, L(absolute(to, room)), 0) : OUTSIDE;
  return found == OUTSIDE ? REAL(rename, path, to) : (int)result(found);
}

struct folder {
  struct folder *next;
  char *entries, *at; /* each the type and the name */
  struct dirent found;
};
static struct folder *folders; /* opened, of the storage */

static struct folder **of_folder(const void *folder) {
  struct folder **at = &folders;
  while (*at && *at != folder) at = &(*at)->next;
  return at;
}

static DIR *folder_of(int64_t found) {
  struct folder *made;
  if (result(found) < 0 || !(made = calloc(1, sizeof *made))) return NULL;
  made->next = folders;
  made->entries = made->at = (char *)found;
  folders = made;
  return (DIR *)made;
}

DIR *opendir(const char *path) {
  int64_t found = at_path(NAMES, path, 0, 0);
  return found == OUTSIDE ? REAL(opendir, path) : folder_of(found);
}

DIR *fdopendir(int file) {
  if (file < FIRST) return REAL(fdopendir, file);
  DIR *made = folder_of(ask(NAMES, 0, file, 0, 0));
  if (made) close(file);
  return made;
}

struct dirent *readdir(DIR *folder) {
  struct folder *ours = *of_folder(folder);
  if (!ours) return REAL(readdir, folder);
  if (!*ours->at) return NULL;
  ours->found.d_type = (unsigned char)*ours->at++;
  ours->found.d_ino = 1;
  strncpy(ours->found.d_name, ours->at, sizeof ours->found.d_name - 1);
  ours->at += strlen(ours->at) + 1;
  return &ours->found;
}
struct dirent64 *readdir64(DIR *folder) { return (struct dirent64 *)readdir(folder); }

void rewinddir(DIR *folder) {
  struct folder *ours = *of_folder(folder);
  if (ours) ours->at = ours->entries; else REAL(rewinddir, folder);
}

int closedir(DIR *folder) {
  struct folder **at = of_folder(folder), *ours = *at;
  if (!ours) return REAL(closedir, folder);
  *at = ours->next;
  free(ours->entries);
  free(ours);
  return 0;
}

/* ----------------------------------------------------------------------------------------------------------- streams */

struct stream {
  int file;
  FILE *stream;
  struct stream *next;
  char buffer[];
};
static struct stream *streams;
static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;

static ssize_t read_stream(void *s, char *to, size_t size) { return read(((struct stream *)s)->file, to, size); }
static ssize_t write_stream(void *s, const char *from, size_t size) { return write(((struct stream *)s)->file, from, size); }
static int seek_stream(void *s, off64_t *offset, int whence) {
  off_t found = lseek(((struct stream *)s)->file, *offset, whence);
  if (found >= 0) *offset = found;
  return found < 0 ? -1 : 0;
}
static int close_stream(void *s) {
  struct stream *old = s, **at = &streams;
  pthread_mutex_lock(&streams_lock);
  while (*at != old) at = &(*at)->next;
  *at = old->next;
  pthread_mutex_unlock(&streams_lock);
  int done = close(old->file);
  free(old);
  return done;
}

/* Return a stream for a descriptor of ours; its buffer has the size that Python's files have. */
static FILE *stream_of(int file, const char *mode) {
  cookie_io_functions_t functions = {read_stream, write_stream, seek_stream, close_stream};
  size_t size = file >= FIRST ? block_bytes() : BUFSIZ;
  struct stream *made = malloc(sizeof *made + size);
  if (!made || !(made->stream = fopencookie(made, mode, functions))) {
    free(made);
    return NULL;
  }
  made->file = file;
  setvbuf(made->stream, made->buffer, size ? _IOFBF : _IONBF, size);
  pthread_mutex_lock(&streams_lock);
  made->next = streams;
  streams = made;
  pthread_mutex_unlock(&streams_lock);
  return made->stream;
}

int xsim_file_of(FILE *stream) {
  int found = -1;
  pthread_mutex_lock(&streams_lock);
  for (struct stream *each = streams; each; each = each->next)
    if (each->stream == stream) found = each->file;
  pthread_mutex_unlock(&streams_lock);
  return found;
}

static int flags_of(const char *mode) {
  int more = (strchr(mode, 'x') ? O_EXCL : 0) | (strchr(mode, 'e') ? O_CLOEXEC : 0);
  int way = strchr(mode, '+') ? O_RDWR : *mode == 'r' ? O_RDONLY : O_WRONLY;
  return way | more | (*mode == 'w' ? O_CREAT | O_TRUNC : *mode == 'a' ? O_CREAT | O_APPEND : 0);
}

FILE *fopen(const char *restrict path, const char *restrict mode) {
  int64_t found = path && is_device(path) ? open(path, flags_of(mode)) : at_path(OPEN, path, flags_of(mode), 0);
  if (found == OUTSIDE) return REAL(fopen, path, mode);
  return result(found) < 0 ? NULL : stream_of((int)found, mode);
}
SAME(FILE *, fopen64, fopen, (const char *restrict path, const char *restrict mode));

FILE *fdopen(int file, const char *mode) {
  return file >= FIRST || is_random(file) ? stream_of(file, mode) : REAL(fdopen, file, mode);
}
