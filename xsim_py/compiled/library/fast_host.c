/* The simulator's side of programs in its own process: their memory, stacks and output.

   The program of each rank has a stack, and a copy of everything that the program can change without a function of ours:
   the variables of the program and of the libraries linked into it, thread-local ones, and some of the C library. The
   code and its addresses are the same for all ranks. When another rank runs, the variables are exchanged.

   Functions for Python are made without the headers of Python, on its stable interface. */
#define _GNU_SOURCE
#include "fast.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#if !defined __x86_64__ || !defined __GLIBC__
#error fast programs need a processor of the kind x86-64, and the GNU C library
#endif

/* --------------------------------------------------------------------------------------------------- Python's interface */

typedef struct _object PyObject;
typedef struct {
  const char *name;
  PyObject *(*function)(PyObject *, PyObject *const *, ssize_t);
  int flags;
  const char *doc;
} PyMethodDef;
enum { METH_FASTCALL = 0x80 };
extern PyObject *PyBytes_FromStringAndSize(const char *, ssize_t), *PyByteArray_FromStringAndSize(const char *, ssize_t);
extern PyObject *PyCFunction_NewEx(PyMethodDef *, PyObject *, PyObject *), *PyDict_New(void), *PyLong_FromLong(long);
extern PyObject *PyLong_FromVoidPtr(void *), *PyLong_FromUnsignedLong(unsigned long);
extern void *PyLong_AsVoidPtr(PyObject *);
extern long PyLong_AsLong(PyObject *);
extern int PyDict_SetItemString(PyObject *, const char *, PyObject *), PyBytes_AsStringAndSize(PyObject *, char **, ssize_t *);
extern char *PyByteArray_AsString(PyObject *);
extern void Py_DecRef(PyObject *);

/* ----------------------------------------------------------------------------------------------------------------- ranks */

enum { REGIONS = 16, SHARED = 16, FUNCTION_BITS = 17 };
enum { XSIM_CALLED, XSIM_OUTPUT, XSIM_ENDED };

struct region {
  char *begin;
  size_t size;
};

/* A program: its variables that each rank has to itself. */
struct image {
  struct xsim_program *program;
  struct region parts[REGIONS]; /* exchanged when another rank runs */
  int count;
  struct region shared[SHARED]; /* variables of the C library, exchanged at every call */
  int shared_count;
  size_t size; /* of the parts */
  char *pristine, *outside; /* values: of the parts before any rank has run; of the shared ones in the simulator */
  struct rank *installed;
};

struct text {
  char *data;
  size_t size, ready, room; /* ready: bytes that a process would have written by now */
};

struct rank {
  void *stack; /* where to continue */
  struct image *image;
  char *slot, *saved, *variables; /* its stack and small blocks; its variables; those of the C library */
  size_t slot_size;
  struct region *maps; /* large memory */
  int map_count, map_room;
  struct text texts[2];
  struct xsim_memory memory;
  int64_t cpu_ns;
  int is_started, is_waiting, has_input, error; /* error: the signal of a crash */
};

static struct xsim_page *page;
static struct rank *current;
static void *simulator; /* its stack, while a program runs */
static FILE *streams[2], *no_input;
static int is_leaving;
static int left; /* memory of ranks that have ended is still mapped */

void xsim_switch(void **save, void *to);
void xsim_switched(void);
__asm__(".text\n.hidden xsim_switch\n.globl xsim_switch\n.type xsim_switch,@function\nxsim_switch:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  subq $8,%rsp\n  stmxcsr (%rsp)\n  fnstcw 4(%rsp)\n  movq %rsp,(%rdi)\n  movq %rsi,%rsp\n"
        ".hidden xsim_switched\n.globl xsim_switched\nxsim_switched:\n"
        "  ldmxcsr (%rsp)\n  fldcw 4(%rsp)\n  addq $8,%rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n  ret\n"
        ".size xsim_switch,.-xsim_switch\n");

static void copy(struct region *parts, int count, char *to, const char *from) {
  for (int i = 0; i < count; i++) {
    if (to) {
      memcpy(to, parts[i].begin, parts[i].size);
      to += parts[i].size;
    } else {
      memcpy(parts[i].begin, from, parts[i].size);
      from += parts[i].size;
    }
  }
}
static void save(struct region *parts, int count, char *to) { copy(parts, count, to, NULL); }
static void load(struct region *parts, int count, const char *from) { copy(parts, count, NULL, from); }

/* Put the variables of a rank in place of those of the rank that ran before. */
static void install(struct rank *r) {
  struct image *m = r->image;
  if (m->installed == r) return;
  if (m->installed) save(m->parts, m->count, m->installed->saved);
  load(m->parts, m->count, r->is_started ? r->saved : m->pristine);
  m->installed = r;
}

/* Return the place of a rank's memory now. */
static char *place(struct rank *r, char *address, size_t size) {
  struct image *m = r->image;
  if (m->installed == r) return address;
  char *kept = r->is_started ? r->saved : m->pristine;
  for (int i = 0; i < m->count; kept += m->parts[i++].size)
    if (address >= m->parts[i].begin && address + size <= m->parts[i].begin + m->parts[i].size)
      return kept + (address - m->parts[i].begin);
  return address;
}

/* ---------------------------------------------------------------------------------------------------------------- output */

static void append(struct text *t, const char *data, size_t size) {
  if (t->size + size > t->room) t->data = realloc(t->data, t->room = 2 * (t->size + size));
  if (!t->data) abort();
  memcpy(t->data + t->size, data, size);
  t->size += size;
}

static ssize_t write_stream(void *number, const char *data, size_t size) {
  long which = (long)number - 1;
  if (!current) return write((int)which + 1, data, size);
  struct text *t = &current->texts[which];
  append(t, data, size);
  if (!is_leaving || which) t->ready = t->size;
  return (ssize_t)size;
}

static void put(int file, const char *data, size_t size) {
  struct text *t = &current->texts[file - 1];
  append(t, data, size);
  t->ready = t->size;
}

/* Take what the program has printed from the streams, which all ranks use. */
static void take_output(void) {
  is_leaving = 1;
  for (int i = 0; i < 2; i++)
    if (__fpending(streams[i])) fflush(streams[i]);
  is_leaving = 0;
}

/* Forget what a process that ends now would not have written yet; standard error has no buffer there. */
static void drop(void) {
  fflush(streams[1]);
  __fpurge(streams[0]);
  current->texts[0].size = current->texts[0].ready;
}

static int stream(const void *file) { return file == streams[0] ? 1 : file == streams[1] ? 2 : 0; }

/* ---------------------------------------------------------------------------------------------------------- large memory */

static void *map(size_t size) {
  struct rank *r = current;
  if (r->map_count == r->map_room) {
    struct region *grown = realloc(r->maps, sizeof *grown * (size_t)(r->map_room = 2 * r->map_room + 4));
    if (!grown) return NULL;
    r->maps = grown;
  }
  void *found = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (found == MAP_FAILED) return NULL;
  r->maps[r->map_count++] = (struct region){found, size};
  return found;
}

static void unmap(void *address) {
  struct rank *r = current;
  for (int i = 0; i < r->map_count; i++)
    if (r->maps[i].begin == address) {
      munmap(address, r->maps[i].size);
      r->maps[i] = r->maps[--r->map_count];
      return;
    }
}

/* --------------------------------------------------------------------------------------------------------------- signals */

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
enum { SIGNALS = sizeof signals / sizeof *signals };
static struct sigaction before[SIGNALS];
static stack_t stack_before;
static sigjmp_buf probe;
static volatile int is_probing; /* the simulator accesses an address that a program has given */

/* End the rank whose program has crashed: return to the stack of the simulator, as after a call. */
static void crashed(int number, siginfo_t *info, void *at) {
  (void)info;
  if (is_probing) siglongjmp(probe, 1);
  if (current && !is_leaving) {
    ucontext_t *where = at;
    current->error = number;
    where->uc_mcontext.gregs[REG_RSP] = (greg_t)simulator;
    where->uc_mcontext.gregs[REG_RIP] = (greg_t)xsim_switched;
    return;
  }
  for (int i = 0; i < SIGNALS; i++)
    if (signals[i] == number) sigaction(number, &before[i], NULL);
}

static void hook(void) {
  static char stack[65536];
  stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
  sigaltstack(NULL, &stack_before);
  if (stack_before.ss_flags & SS_DISABLE) sigaltstack(&own, NULL);
  struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
  action.sa_sigaction = crashed;
  for (int i = 0; i < SIGNALS; i++) sigaction(signals[i], &action, &before[i]);
}

static void unhook(void) {
  for (int i = 0; i < SIGNALS; i++) sigaction(signals[i], &before[i], NULL);
  if (stack_before.ss_flags & SS_DISABLE) sigaltstack(&stack_before, NULL);
}

/* ----------------------------------------------------------------------------------------------------------------- calls */

static int64_t processor_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void leave(void) { xsim_switch(&current->stack, simulator); }

/* Let the program of a rank continue until its next call or its end. */
static void run(struct rank *r) {
  struct image *m = r->image;
  FILE *old[3] = {stdin, stdout, stderr};
  int64_t begin = page->is_timed ? processor_ns() : 0;
  install(r);
  if (!r->is_started) *m->program->memory = r->memory;
  save(m->shared, m->shared_count, m->outside);
  load(m->shared, m->shared_count, r->variables);
  stdin = r->has_input ? stdin : no_input, stdout = streams[0], stderr = streams[1];
  r->is_started = 1;
  current = r;
  xsim_switch(&simulator, r->stack);
  if (r->error) {
    drop();
    page->request = XSIM_ENDING;
    page->returned = -r->error;
  }
  take_output();
  current = NULL;
  stdin = old[0], stdout = old[1], stderr = old[2];
  save(m->shared, m->shared_count, r->variables);
  load(m->shared, m->shared_count, m->outside);
  if (page->is_timed) page->cpu_ns = r->cpu_ns += processor_ns() - begin;
  r->is_waiting = 1;
  if (page->request == XSIM_ENDING) {
    for (int i = 0; i < 2; i++) r->texts[i].ready = r->texts[i].size;
    page->reply = page->patches = page->is_told = 0; /* as each call leaves it */
    page->received = -1;
    page->result = 0;
  }
}

/* Return what has happened: first that there is output, then the call. */
static int event(struct rank *r) {
  if (!r->is_waiting) run(r);
  if (r->texts[0].ready || r->texts[1].ready) return XSIM_OUTPUT;
  r->is_waiting = 0;
  return page->request == XSIM_ENDING ? XSIM_ENDED : XSIM_CALLED;
}

static void end(struct rank *r) {
  if (r->image->installed == r) r->image->installed = NULL;
  for (int i = 0; i < r->map_count; i++) munmap(r->maps[i].begin, r->maps[i].size);
  free(r->maps);
  free(r->texts[0].data);
  free(r->texts[1].data);
  char *slot = r->slot;
  size_t size = r->slot_size;
  if (munmap(slot, size)) madvise(slot, size, MADV_DONTNEED), left = 1; /* there are too many mappings */
}

/* Return a rank whose program has not begun, in memory at an address; an error number if there is none. */
static long begin(struct image *m, char *slot, size_t slot_size, size_t stack_size, int guard) {
  enum { HEAD = 2048, GUARD_INSTALL = 102 };
  int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
  void *found = mmap(slot, slot_size, PROT_READ | PROT_WRITE, how, -1, 0);
  if (found == MAP_FAILED && !(errno == EEXIST && left)) return -errno;
  if (found != MAP_FAILED && found != slot) return munmap(found, slot_size), -EEXIST;
  madvise(slot, slot_size, MADV_NOHUGEPAGE);
  if (madvise(slot, 4096, GUARD_INSTALL) && guard) mprotect(slot, 4096, PROT_NONE);
  char *top = slot + stack_size + HEAD; /* the first frames share a page with what follows */
  struct rank *r = (struct rank *)top;
  size_t kept = sizeof *r, shared = 0;
  r->image = m;
  r->slot = slot;
  r->slot_size = slot_size;
  r->saved = top + kept;
  for (int i = 0; i < m->shared_count; i++) shared += m->shared[i].size;
  r->variables = r->saved + m->size;
  save(m->shared, m->shared_count, r->variables);
  kept = (kept + m->size + shared + 63) / 64 * 64;
  r->memory.begin = top + kept;
  r->memory.end = slot + slot_size;
  uint64_t *at = (uint64_t *)top;
  *--at = 0;
  *--at = (uint64_t)m->program->start;
  at -= 7;
  ((uint32_t *)at)[0] = 0x1f80; /* floating-point control as at the start of a process */
  ((uint16_t *)at)[2] = 0x37f;
  r->stack = at;
  return (long)r;
}

/* -------------------------------------------------------------------------------------------------- functions for Python */

#define FUNCTION(name) static PyObject *py_##name(PyObject *self, PyObject *const *a, ssize_t n)
#define RANK ((struct rank *)PyLong_AsVoidPtr(a[0]))
#define INTEGER(i) PyLong_AsLong(a[i])
#define POINTER(i) ((char *)PyLong_AsVoidPtr(a[i]))
#define NOTHING PyLong_FromLong(0)
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* Hot path: the call as one number, its place and its function; or 0 for output, 1 for the end, 2 for a result. */
static PyObject *happened(struct rank *r) {
  int what = event(r);
  if (what != XSIM_CALLED) return PyLong_FromLong(what == XSIM_ENDED);
  if (page->request == XSIM_RETURNED) return PyLong_FromLong(2);
  return PyLong_FromUnsignedLong(page->site << FUNCTION_BITS | page->function);
}

FUNCTION(wait) { return happened(RANK); }

FUNCTION(exchange) {
  struct rank *r = RANK;
  r->is_waiting = 0;
  return happened(r);
}

FUNCTION(turn) { return run(RANK), NOTHING; }

FUNCTION(begin) { return PyLong_FromLong(begin((struct image *)POINTER(0), POINTER(1), (size_t)INTEGER(2), (size_t)INTEGER(3), (int)INTEGER(4))); }

/* rank, number of words, words, whether it needs the variables of the environment, and reads standard input */
FUNCTION(give) {
  struct rank *r = RANK;
  r->memory.argc = (int)INTEGER(1);
  r->memory.argv = (char **)POINTER(2);
  r->memory.needs_variables = (int)INTEGER(3);
  r->has_input = (int)INTEGER(4);
  return NOTHING;
}

FUNCTION(cpu_ns) { return PyLong_FromLong(RANK->cpu_ns); }

FUNCTION(end) { return end(RANK), NOTHING; }

FUNCTION(output) {
  struct text *t = &RANK->texts[INTEGER(1)];
  PyObject *found = PyBytes_FromStringAndSize(t->data, (ssize_t)t->ready);
  memmove(t->data ? t->data : "", t->data ? t->data + t->ready : "", t->size - t->ready);
  t->size -= t->ready;
  t->ready = 0;
  if (!t->size) free(t->data), t->data = NULL, t->room = 0;
  return found;
}

FUNCTION(read) {
  size_t size = (size_t)INTEGER(2);
  PyObject *volatile found = PyByteArray_FromStringAndSize(NULL, (ssize_t)size);
  if (!found) return NULL;
  if (sigsetjmp(probe, 0)) {
    is_probing = 0;
    Py_DecRef(found);
    return NOTHING;
  }
  is_probing = 1;
  memcpy(PyByteArray_AsString(found), place(RANK, POINTER(1), size), size);
  is_probing = 0;
  return found;
}

FUNCTION(write) {
  char *data;
  ssize_t size;
  if (PyBytes_AsStringAndSize(a[2], &data, &size)) return NULL;
  if (sigsetjmp(probe, 0)) {
    is_probing = 0;
    return PyLong_FromLong(-1);
  }
  is_probing = 1;
  memcpy(place(RANK, POINTER(1), (size_t)size), data, (size_t)size);
  is_probing = 0;
  return NOTHING;
}

/* rank, address, bytes that were there, bytes: write those that differ */
FUNCTION(change) {
  char *old, *new;
  ssize_t size;
  if (PyBytes_AsStringAndSize(a[2], &old, &size) || PyBytes_AsStringAndSize(a[3], &new, &size)) return NULL;
  if (sigsetjmp(probe, 0)) {
    is_probing = 0;
    return PyLong_FromLong(-1);
  }
  is_probing = 1;
  char *to = place(RANK, POINTER(1), (size_t)size);
  for (ssize_t i = 0; i < size; i++)
    if (old[i] != new[i]) to[i] = new[i];
  is_probing = 0;
  return NOTHING;
}

/* the program, its parts and shared variables: each as begin, size, ...; 0, 0 between them */
FUNCTION(load) {
  struct image *m = calloc(1, sizeof *m);
  m->program = (struct xsim_program *)POINTER(0);
  int is_shared = 0;
  for (ssize_t i = 1; i + 1 < n; i += 2) {
    struct region found = {POINTER(i), (size_t)INTEGER(i + 1)};
    if (!found.begin) is_shared = 1;
    else if (is_shared) m->shared[m->shared_count++] = found;
    else m->parts[m->count++] = found, m->size += found.size;
  }
  static struct xsim_host host;
  host = (struct xsim_host){page, leave, put, drop, stream, map, unmap, &environ};
  *m->program->host = &host;
  m->pristine = malloc(m->size + 1);
  m->outside = malloc(SHARED * 256);
  save(m->parts, m->count, m->pristine);
  return PyLong_FromVoidPtr(m);
}

FUNCTION(unload) {
  struct image *m = (struct image *)POINTER(0);
  free(m->pristine);
  free(m->outside);
  free(m);
  return NOTHING;
}

/* Begin (with the address of the page) or end a run. */
FUNCTION(hook) {
  static const cookie_io_functions_t functions = {.write = write_stream};
  page = (struct xsim_page *)POINTER(0);
  if (!page) return unhook(), NOTHING;
  if (!no_input) {
    no_input = fopen("/dev/null", "r");
    for (long i = 0; i < 2; i++) {
      streams[i] = fopencookie((void *)(i + 1), "w", functions);
      setvbuf(streams[i], NULL, i ? _IOFBF : _IOLBF, BUFSIZ);
    }
  }
  hook();
  return NOTHING;
}

/* Return all functions for Python, by name. */
__attribute__((visibility("default"))) PyObject *xsim_functions(void) {
#define M(name) {#name, py_##name, METH_FASTCALL, NULL}
  static PyMethodDef all[] = {M(wait), M(exchange), M(turn), M(begin), M(give), M(cpu_ns), M(end), M(output), M(read), M(write), M(change), M(load), M(unload), M(hook)};
  PyObject *found = PyDict_New();
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    PyObject *one = PyCFunction_NewEx(&all[i], NULL, NULL);
    PyDict_SetItemString(found, all[i].name, one);
    Py_DecRef(one);
  }
  return found;
}
