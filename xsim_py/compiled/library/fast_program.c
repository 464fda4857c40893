/* Begin and end of a fast program, and what the C library has once per process: each rank has its own.

   This file is linked into the program, so its variables are among those that are exchanged between ranks. */
#include "fast_program.h"

#include <dlfcn.h>
#include <err.h>
#include <errno.h>
#include <error.h>
#include <getopt.h>
#include <locale.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

typedef void (*step)(int, char **, char **);
extern step xsim_first_begin[], xsim_last_begin[];
extern void (*xsim_first_end[])(void), (*xsim_last_end[])(void);
extern int main(int, char **, char **);

const struct xsim_host *xsim_host;
struct xsim_memory xsim_memory;

#define environ (*xsim_host->variables) /* the symbol would tell that the program needs it at once */
static char **own_variables; /* an array that no other rank has */

/* Ask for the variables of the environment when they are first needed: for many ranks, this takes longer than all else. */
static void know_variables(void) {
  int64_t given[] = {(int64_t)&own_variables, 0};
  if (own_variables) return;
  xsim_call(XSIM_VARIABLES, 2, given, __builtin_return_address(0));
  environ = own_variables;
}

static void start(void) {
  static char *none;
  xsim_page = xsim_host->page;
  environ = &none;
  if (xsim_memory.needs_variables) know_variables();
  for (step *at = xsim_first_begin; at < xsim_last_begin; at++) (*at)(xsim_memory.argc, xsim_memory.argv, environ);
  exit(main(xsim_memory.argc, xsim_memory.argv, environ));
}

__attribute__((visibility("default"))) const struct xsim_program xsim_program = {XSIM_VERSION, &xsim_host, start, &xsim_memory};

_Noreturn void xsim_end(int status) {
  xsim_page->request = XSIM_ENDING;
  xsim_page->returned = status < 0 ? status : status & 255;
  xsim_host->leave();
  __builtin_trap();
}

/* ------------------------------------------------------------------------------------------------------------------- end */

struct at_end {
  struct at_end *next;
  void (*function)(void *);
  void (*with_status)(int, void *);
  void *argument;
};
static struct at_end *at_end;

static int add(struct at_end given) {
  struct at_end *found = malloc(sizeof *found);
  if (!found) return -1;
  *found = given;
  at_end = found;
  return 0;
}

int __cxa_atexit(void (*function)(void *), void *argument, void *object);
int __cxa_atexit(void (*function)(void *), void *argument, void *object) {
  (void)object;
  return add((struct at_end){at_end, function, NULL, argument});
}
int __cxa_thread_atexit_impl(void (*function)(void *), void *argument, void *object);
int __cxa_thread_atexit_impl(void (*function)(void *), void *argument, void *object) {
  return __cxa_atexit(function, argument, object);
}
int on_exit(void (*function)(int, void *), void *argument) {
  return add((struct at_end){at_end, NULL, function, argument});
}
void __cxa_finalize(void *object);
void __cxa_finalize(void *object) { (void)object; }

_Noreturn void exit(int status) {
  while (at_end) {
    struct at_end *one = at_end;
    at_end = one->next;
    if (one->function) one->function(one->argument); else one->with_status(status, one->argument);
  }
  for (void (**at)(void) = xsim_last_end; at > xsim_first_end;) (*--at)();
  fflush(stdout);
  xsim_end(status & 255);
}

_Noreturn void _exit(int status) {
  xsim_host->drop();
  xsim_end(status & 255);
}
_Noreturn void _Exit(int status) { _exit(status); }
_Noreturn void quick_exit(int status) { _exit(status); }

static int killed(int number) {
  static const int ignored[] = {0, SIGCHLD, SIGCONT, SIGURG, SIGWINCH};
  for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
    if (number == ignored[i]) return 0;
  if (number < 0 || number > SIGRTMAX) return errno = EINVAL, -1;
  xsim_host->drop();
  xsim_end(-number);
}

_Noreturn void abort(void) {
  killed(SIGABRT);
  __builtin_trap();
}
int raise(int number) { return killed(number); }
int kill(pid_t pid, int number) { return pid == getpid() ? killed(number) : (errno = EPERM, -1); }

/* Functions that end a program and are not seen to call exit() or abort(). */

static const char *short_name(void) {
  const char *last = strrchr(*xsim_memory.argv, '/');
  return last ? last + 1 : *xsim_memory.argv;
}

_Noreturn void __assert_fail(const char *text, const char *file, unsigned line, const char *function) {
  fflush(stdout);
  fprintf(stderr, "%s: %s:%u: %s: Assertion `%s' failed.\n", short_name(), file, line, function, text);
  abort();
}

static void say(const char *format, va_list values, int code) {
  fprintf(stderr, "%s: ", short_name());
  if (format) vfprintf(stderr, format, values);
  if (code >= 0) fprintf(stderr, "%s%s", format ? ": " : "", strerror(code));
  putc('\n', stderr);
}

#define WITH(values, last, ...) \
  va_list values; \
  va_start(values, last); \
  __VA_ARGS__; \
  va_end(values)

void verr(int status, const char *format, va_list values) {
  say(format, values, errno);
  exit(status);
}
void verrx(int status, const char *format, va_list values) {
  say(format, values, -1);
  exit(status);
}
void err(int status, const char *format, ...) { WITH(values, format, verr(status, format, values)); }
void errx(int status, const char *format, ...) { WITH(values, format, verrx(status, format, values)); }

void error(int status, int code, const char *format, ...) {
  fflush(stdout);
  fprintf(stderr, "%s: ", *xsim_memory.argv);
  WITH(values, format, vfprintf(stderr, format, values));
  if (code) fprintf(stderr, ": %s", strerror(code));
  putc('\n', stderr);
  if (status) exit(status);
}

/* --------------------------------------------------------------------------------------------------- input and output */

ssize_t write(int file, const void *data, size_t size) {
  if (file != 1 && file != 2) return syscall(SYS_write, file, data, size);
  xsim_host->put(file, data, size);
  return (ssize_t)size;
}

ssize_t writev(int file, const struct iovec *parts, int count) {
  if (file != 1 && file != 2) return syscall(SYS_writev, file, parts, count);
  ssize_t all = 0;
  for (int i = 0; i < count; i++) all += write(file, parts[i].iov_base, parts[i].iov_len);
  return all;
}

/* The standard streams are the same for all ranks, which must not see what others have set. */
int fileno(FILE *file) {
  int number = xsim_host->stream(file);
  return number ? number : file->_fileno;
}
int setvbuf(FILE *restrict file, char *restrict buffer, int how, size_t size) {
  extern int _IO_setvbuf(FILE *, char *, int, size_t);
  return xsim_host->stream(file) ? 0 : _IO_setvbuf(file, buffer, how, size);
}
void setbuf(FILE *restrict file, char *restrict buffer) { setvbuf(file, buffer, buffer ? _IOFBF : _IONBF, BUFSIZ); }
void setlinebuf(FILE *file) { setvbuf(file, NULL, _IOLBF, 0); }
int fclose(FILE *file) {
  extern int _IO_fclose(FILE *);
  return xsim_host->stream(file) ? fflush(file) : _IO_fclose(file);
}
int close(int file) { return file <= 2 && file >= 0 ? 0 : (int)syscall(SYS_close, file); }
ssize_t read(int file, void *data, size_t size) {
  return file || stdin->_fileno == 0 ? syscall(SYS_read, file, data, size) : 0;
}

/* ------------------------------------------------------------------------------------------------- state of the C library */

/* Texts that are replaced are kept, as in the C library. */
static int is_block; /* whether the array is one of malloc(), rather than the beginning of the first variables */

static char **variable(const char *name, size_t size) {
  char **at = environ;
  while (*at && (strncmp(*at, name, size) || (*at)[size] != '=')) at++;
  return at;
}

static int make_room(void) {
  size_t count = 0;
  know_variables();
  while (environ[count]) count++;
  char **found = malloc((count + 2) * sizeof *found);
  if (!found) return -1;
  memcpy(found, environ, (count + 1) * sizeof *found);
  if (environ == own_variables && is_block) free(own_variables);
  is_block = 1;
  environ = own_variables = found;
  return 0;
}

char *getenv(const char *name) {
  size_t size = strlen(name);
  know_variables();
  char *found = *variable(name, size);
  return found ? found + size + 1 : NULL;
}
char *secure_getenv(const char *name) { return getenv(name); }

int putenv(char *text) {
  size_t size = strcspn(text, "=");
  if (!text[size]) return unsetenv(text);
  if (make_room()) return -1;
  char **at = variable(text, size);
  if (!*at) at[1] = NULL;
  *at = text;
  return 0;
}

int setenv(const char *name, const char *value, int replace) {
  size_t size = name ? strlen(name) : 0;
  if (!size || strchr(name, '=')) return errno = EINVAL, -1;
  if (!replace && getenv(name)) return 0;
  char *text = malloc(size + strlen(value) + 2);
  if (!text) return -1;
  sprintf(text, "%s=%s", name, value);
  return putenv(text);
}

int unsetenv(const char *name) {
  if (!name || !*name || strchr(name, '=')) return errno = EINVAL, -1;
  if (make_room()) return -1;
  for (char **at = variable(name, strlen(name)); *at; at++) *at = at[1];
  return 0;
}

int clearenv(void) {
  if (make_room()) return -1;
  *environ = NULL;
  return 0;
}

static void own_options(void) { /* getopt keeps more than its variables: another rank must not parse meanwhile */
  static int has_begun;
  know_variables(); /* POSIXLY_CORRECT */
  if (!has_begun && optind == 1) optind = 0;
  has_begun = 1;
}
#define PARSING(name, parameters, ...) \
  int name parameters { \
    static int (*real) parameters; \
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name); \
    own_options(); \
    return real(__VA_ARGS__); \
  }
PARSING(getopt, (int count, char *const words[], const char *options), count, words, options)
PARSING(getopt_long, (int count, char *const words[], const char *options, const struct option *names, int *index), count, words,
        options, names, index)
PARSING(getopt_long_only, (int count, char *const words[], const char *options, const struct option *names, int *index), count,
        words, options, names, index)

static struct random_data generator;
static char generator_state[128];

static struct random_data *own_generator(void) {
  if (!generator.state) initstate_r(1, generator_state, sizeof generator_state, &generator);
  return &generator;
}
long random(void) {
  int32_t found;
  random_r(own_generator(), &found);
  return found;
}
void srandom(unsigned seed) { srandom_r(seed, own_generator()); }
int rand(void) { return (int)random(); }
void srand(unsigned seed) { srandom(seed); }

static struct drand48_data generator48;
#define DRAWING(type, name) \
  type name(void) { \
    type found; \
    name##_r(&generator48, &found); \
    return found; \
  }
DRAWING(double, drand48)
DRAWING(long, lrand48)
DRAWING(long, mrand48)
void srand48(long seed) { srand48_r(seed, &generator48); }

char *strtok(char *restrict text, const char *restrict ends) {
  static char *rest;
  return strtok_r(text, ends, &rest);
}

static struct tm broken_down;
struct tm *localtime(const time_t *t) {
  know_variables(); /* TZ */
  tzset();
  return localtime_r(t, &broken_down);
}
struct tm *gmtime(const time_t *t) { return gmtime_r(t, &broken_down); }
char *asctime(const struct tm *t) {
  static char text[64];
  return asctime_r(t, text);
}
char *ctime(const time_t *t) { return asctime(localtime(t)); }

char *setlocale(int category, const char *name) {
  static char c[] = "C";
  (void)category;
  return !name || !*name || !strcmp(name, c) || !strcmp(name, "POSIX") ? c : NULL;
}
