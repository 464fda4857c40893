/* Memory of a fast program: a rank's blocks are in its own pages, so that its end, however it comes, frees them all.

   Small blocks have one of 48 sizes, and are kept for reuse in a list per size; larger ones are mapped. Functions of the
   C library may return blocks of its own, and these are freed as such. */
#include "fast_program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KINDS = 48, MAPPED = 64, ALIGNED, LARGEST = 128 << 10, PAGE = 4096, CHUNK = 1 << 20, HEAD = 64 };

struct head { /* before each block */
  uint32_t kind;
  uint32_t back; /* of an aligned block: how far the block is in which it lies */
  uint64_t size; /* of a mapped one */
};

struct area { /* at the beginning of mapped memory */
  struct area *next;
  size_t size;
};

struct heap { /* at the beginning of the rank's memory */
  void *free[KINDS];
  char *next, *end;
  struct area *areas;
};

void *__libc_realloc(void *, size_t);
void __libc_free(void *);

static size_t size_of(int kind) {
  return kind < 8 ? 16 * (size_t)(kind + 1) : (size_t)(4 + kind % 4 + 1) << (5 + (kind - 8) / 4);
}

static int kind_of(size_t size) {
  if (size <= 128) return size ? (int)((size - 1) / 16) : 0;
  int high = 63 - __builtin_clzl(size - 1); /* 7: up to 256 */
  return 8 + 4 * (high - 7) + (int)((size - 1) >> (high - 2)) - 4;
}

static struct heap *heap(void) {
  struct heap *h = (struct heap *)xsim_memory.begin;
  if (!h->next) h->next = (char *)(h + 1) + 8, h->end = xsim_memory.end;
  return h;
}

static struct area *mapped(size_t size) {
  struct area *a = xsim_host->map(size);
  if (!a) return NULL;
  struct heap *h = heap();
  *a = (struct area){h->areas, size};
  h->areas = a;
  return a;
}

static int is_own(const char *block) {
  if (block >= xsim_memory.begin && block < xsim_memory.end) return 1;
  struct heap *h = heap();
  for (struct area *a = h->areas; a; a = a->next)
    if (block > (char *)a && block < (char *)a + a->size) return 1;
  return 0;
}

static struct head *head(void *block) { return (struct head *)block - 1; }

void *malloc(size_t size) {
  struct heap *h = heap();
  if (size > LARGEST) {
    size_t whole = (size + HEAD + PAGE - 1) / PAGE * PAGE;
    struct area *a = whole > size ? mapped(whole) : NULL;
    if (!a) return errno = ENOMEM, NULL;
    struct head *found = (struct head *)((char *)a + HEAD) - 1;
    *found = (struct head){MAPPED, 0, whole - HEAD};
    return found + 1;
  }
  int kind = kind_of(size);
  void *found = h->free[kind];
  if (found) {
    h->free[kind] = *(void **)found;
    return found;
  }
  size_t all = size_of(kind) + sizeof(struct head);
  if ((size_t)(h->end - h->next) < all) {
    struct area *a = mapped(CHUNK);
    if (!a) return errno = ENOMEM, NULL;
    h->next = (char *)a + HEAD;
    h->end = (char *)a + CHUNK;
  }
  struct head *made = (struct head *)h->next;
  h->next += all;
  made->kind = (uint32_t)kind;
  return made + 1;
}

void free(void *block) {
  if (!block) return;
  if (!is_own(block)) {
    __libc_free(block);
    return;
  }
  struct heap *h = heap();
  if (head(block)->kind == ALIGNED) block = (char *)block - head(block)->back;
  uint32_t kind = head(block)->kind;
  if (kind == MAPPED) {
    struct area *a = (struct area *)((char *)block - HEAD), **at = &h->areas;
    while (*at != a) at = &(*at)->next;
    *at = a->next;
    xsim_host->unmap(a);
    return;
  }
  *(void **)block = h->free[kind];
  h->free[kind] = block;
}

/* How many bytes a block of ours has. */
static size_t room(void *block) {
  struct head *a = head(block);
  if (a->kind == ALIGNED) return room((char *)block - a->back) - a->back;
  return a->kind == MAPPED ? a->size : size_of((int)a->kind);
}

void *calloc(size_t count, size_t size) {
  size_t all;
  if (__builtin_mul_overflow(count, size, &all)) return errno = ENOMEM, NULL;
  void *found = malloc(all);
  if (found && head(found)->kind != MAPPED) memset(found, 0, all);
  return found;
}

void *realloc(void *block, size_t size) {
  if (!block) return malloc(size);
  if (!is_own(block)) return __libc_realloc(block, size);
  if (!size) return free(block), NULL;
  size_t had = room(block);
  if (size <= had && (size > had / 2 || had <= 128)) return block;
  void *found = malloc(size);
  if (!found) return NULL;
  memcpy(found, block, had < size ? had : size);
  free(block);
  return found;
}

void *reallocarray(void *block, size_t count, size_t size) {
  size_t all;
  return __builtin_mul_overflow(count, size, &all) ? (errno = ENOMEM, NULL) : realloc(block, all);
}

void *memalign(size_t alignment, size_t size) {
  if (alignment <= 16) return malloc(size);
  if (alignment & (alignment - 1) || size + alignment < size) return errno = EINVAL, NULL;
  char *found = malloc(size + alignment);
  if (!found || !((uintptr_t)found & (alignment - 1))) return found;
  char *at = (char *)(((uintptr_t)found + alignment - 1) & -alignment);
  *head(at) = (struct head){ALIGNED, (uint32_t)(at - found), 0};
  return at;
}

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
void *valloc(size_t size) { return memalign(PAGE, size); }

int posix_memalign(void **place, size_t alignment, size_t size) {
  if (alignment % sizeof(void *) || !alignment || alignment & (alignment - 1)) return EINVAL;
  int saved = errno;
  void *found = memalign(alignment, size);
  errno = saved;
  if (!found) return ENOMEM;
  *place = found;
  return 0;
}

size_t malloc_usable_size(void *block);
size_t malloc_usable_size(void *block) { return block && is_own(block) ? room(block) : 0; }

/* ------------------------------------------------------------------------- functions of the C library that take or return blocks */

char *strndup(const char *text, size_t most) {
  size_t size = strnlen(text, most);
  char *found = malloc(size + 1);
  if (!found) return NULL;
  found[size] = 0;
  return memcpy(found, text, size);
}

char *strdup(const char *text) { return strndup(text, PTRDIFF_MAX); }

ssize_t getdelim(char **restrict line, size_t *restrict room_of, int end, FILE *restrict file) {
  size_t count = 0;
  for (int c = 0; c != end;) {
    if (!*line || *room_of < count + 2) {
      char *grown = realloc(*line, *room_of = 2 * count + 120);
      if (!grown) return -1;
      *line = grown;
    }
    if ((c = getc(file)) == EOF) break;
    (*line)[count++] = (char)c;
  }
  (*line)[count] = 0;
  return count ? (ssize_t)count : -1;
}

ssize_t getline(char **restrict line, size_t *restrict room_of, FILE *restrict file) {
  return getdelim(line, room_of, '\n', file);
}
