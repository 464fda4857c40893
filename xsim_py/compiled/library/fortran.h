/* What the entry points of Fortran share. Their arguments are addresses; ierror may be absent (NULL). */
#ifndef XSIM_FORTRAN_H
#define XSIM_FORTRAN_H
#include "runtime.h"
#include "mpi.h"

#include <alloca.h>
#include <stddef.h>

#define FORTRAN(type, name, parameters) \
  type pmpi_##name##_ parameters; \
  type mpi_##name##_ parameters __attribute__((weak, alias("pmpi_" #name "_"))); \
  type pmpi_##name##_ parameters
#define FORTRAN_MPIX(type, name, parameters) \
  type mpix_##name##_ parameters; \
  type mpix_##name##_ parameters

/* The call of the program is where Fortran returns to, not in this library. */
#define AT(call) ({ \
  xsim_site = __builtin_return_address(0); \
  __auto_type xsim_result = call; \
  xsim_site = NULL; \
  xsim_result; \
})
#define CALL(call) ({ \
  int xsim_code = AT(call); \
  if (ierror) *ierror = xsim_code; \
})

/* A handle of Fortran is the number of the ABI. */
#define TO(kind, number) ((MPI_##kind)(intptr_t)(number))
#define HANDLE(kind, name) MPI_##kind c_##name = TO(kind, *name)
#define NUMBER(name) *name = (int)(intptr_t)c_##name
#define HANDLES(kind, name, count) \
  int64_t count_##name = count; \
  MPI_##kind c_##name[count_##name > 0 ? count_##name : 1]; \
  for (int64_t i = 0; i < count_##name; i++) c_##name[i] = TO(kind, name[i])
#define NUMBERS(name, count) \
  for (int64_t i = 0; i < count_##name; i++) name[i] = (int)(intptr_t)c_##name[i]

/* Room for any text, and a mark that tells whether C has written one. */
#define TEXT(name) char c_##name[MPI_MAX_LIBRARY_VERSION_STRING + 1 + name##_length]; c_##name[0] = XSIM_NO_TEXT
enum { XSIM_NO_TEXT = 1 };

enum { GROUP, SOURCES, DESTINATIONS };
void *xsim_address(void *argument);    /* with the constants of C in place of those of Fortran */
MPI_Status *xsim_status(int *argument);
int xsim_peers(void *buffer, int comm, int kind); /* how many types there are for a buffer of an Alltoallw */
void xsim_from_one(int *indices, int count);
char *xsim_text(char *copy, const char *text, size_t length);
char *xsim_stripped(char *copy, const char *text, size_t length);
void xsim_padded(char *text, size_t length, const char *copy);
char **xsim_words(const char *words, size_t length, int64_t stride, int64_t count);
char ***xsim_rows(const char *words, size_t length, int count);
#endif
