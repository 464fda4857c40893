/* The side of Fortran: its constants, conversions, and the functions that it passes. See fortran_calls.c. */
#include "fortran.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------- constants */

/* Each is a variable that Fortran knows by this name; its address is the constant. */
int xsim_bottom_, xsim_in_place_, xsim_buffer_automatic_, xsim_unweighted_, xsim_weights_empty_, xsim_errcodes_ignore_;
char xsim_argv_null_, xsim_argvs_null_;
int xsim_status_ignore_[8], xsim_statuses_ignore_[8], xsim_status_ignore_f08_[8], xsim_statuses_ignore_f08_[8];

void *xsim_address(void *argument) {
  int *a = argument;
  if (a == &xsim_bottom_ || a == &xsim_errcodes_ignore_) return NULL;
  if (a == &xsim_in_place_) return MPI_IN_PLACE;
  if (a == &xsim_buffer_automatic_) return MPI_BUFFER_AUTOMATIC;
  if (a == &xsim_unweighted_) return MPI_UNWEIGHTED;
  return a == &xsim_weights_empty_ ? MPI_WEIGHTS_EMPTY : argument;
}

MPI_Status *xsim_status(int *a) {
  int is_ignored = a == xsim_status_ignore_ || a == xsim_statuses_ignore_ || a == xsim_status_ignore_f08_ ||
                   a == xsim_statuses_ignore_f08_;
  return is_ignored ? MPI_STATUS_IGNORE : (MPI_Status *)a;
}

/* -------------------------------------------------------------------------------------------------------- conversion */

int xsim_peers(void *buffer, int number, int kind) {
  MPI_Comm comm = TO(Comm, number);
  int is_inter = 0, topology = MPI_UNDEFINED, sources = 0, destinations = 0, are_weighted;
  if (buffer == &xsim_in_place_ || comm == MPI_COMM_NULL) return 0;
  if (kind == GROUP) {
    PMPI_Comm_test_inter(comm, &is_inter);
    if (is_inter) PMPI_Comm_remote_size(comm, &sources); else PMPI_Comm_size(comm, &sources);
    return sources;
  }
  PMPI_Topo_test(comm, &topology);
  if (topology == MPI_CART) {
    PMPI_Cartdim_get(comm, &sources);
    return 2 * sources;
  }
  if (topology == MPI_GRAPH) {
    PMPI_Comm_rank(comm, &destinations);
    PMPI_Graph_neighbors_count(comm, destinations, &sources);
    return sources;
  }
  if (topology == MPI_DIST_GRAPH) PMPI_Dist_graph_neighbors_count(comm, &sources, &destinations, &are_weighted);
  return kind == SOURCES ? sources : destinations;
}

void xsim_from_one(int *indices, int count) {
  for (int i = 0; i < count; i++)
    if (indices[i] != MPI_UNDEFINED) indices[i]++;
}

char *xsim_text(char *copy, const char *text, size_t length) {
  while (length && text[length - 1] == ' ') length--;
  memcpy(copy, text, length);
  copy[length] = 0;
  return copy;
}

char *xsim_stripped(char *copy, const char *text, size_t length) {
  while (length && *text == ' ') text++, length--;
  return xsim_text(copy, text, length);
}

void xsim_padded(char *text, size_t length, const char *copy) {
  if (copy[0] == XSIM_NO_TEXT) return;
  size_t size = strlen(copy);
  memset(text, ' ', length);
  memcpy(text, copy, size < length ? size : length);
}

/* Return texts that are so many apart, up to a blank one if their number is not known. A program spawns seldom, so the
   memory is not freed. */
char **xsim_words(const char *words, size_t length, int64_t stride, int64_t count) {
  if (words == &xsim_argv_null_) return NULL;
  char **found = NULL;
  for (int64_t i = 0;; i++) {
    char *word = i == count ? NULL : xsim_text(malloc(length + 1), words + (size_t)(i * stride) * length, length);
    found = realloc(found, (size_t)(i + 1) * sizeof *found);
    found[i] = word && (*word || count >= 0) ? word : NULL;
    if (!found[i]) return found;
  }
}

char ***xsim_rows(const char *words, size_t length, int count) {
  if (words == &xsim_argvs_null_) return NULL;
  char ***found = malloc((size_t)(count > 0 ? count : 1) * sizeof *found);
  for (int i = 0; i < count; i++) found[i] = xsim_words(words + (size_t)i * length, length, count, -1);
  return found;
}

void mpi_f_sync_reg_(void *buffer) { (void)buffer; }

/* ---------------------------------------------------------------------------------- handles of mpi_f08 are compared */

#define COMPARED(kind) \
  int xsim_##kind##_eq_(int *a, int *b); \
  int xsim_##kind##_eq_(int *a, int *b) { return *a == *b; } \
  int xsim_##kind##_ne_(int *a, int *b); \
  int xsim_##kind##_ne_(int *a, int *b) { return *a != *b; }
COMPARED(comm) COMPARED(datatype) COMPARED(errhandler) COMPARED(file) COMPARED(group) COMPARED(info)
COMPARED(message) COMPARED(op) COMPARED(request) COMPARED(session) COMPARED(win)

/* -------------------------------------------------------------------------------------------------------- attributes */

typedef void copy_function(int *handle, int *key, void *extra, void *value, void *copy, int *flag, int *error);
typedef void delete_function(int *handle, int *key, void *value, void *extra, int *error);
struct key {
  copy_function *copy;
  delete_function *delete;
  MPI_Aint extra;
  int is_old; /* values are of type INTEGER */
};

static int copy(intptr_t handle, int key, void *state, void *value, void *made, int *flag) {
  struct key *k = state;
  MPI_Aint given = (MPI_Aint)value, extra = k->extra, new = 0;
  int number = (int)handle, error = MPI_SUCCESS;
  k->copy(&number, &key, &extra, &given, &new, flag, &error);
  *(MPI_Aint *)made = k->is_old ? (int)new : new;
  return error;
}

static int delete(intptr_t handle, int key, void *value, void *state) {
  struct key *k = state;
  MPI_Aint given = (MPI_Aint)value, extra = k->extra;
  int number = (int)handle, error = MPI_SUCCESS;
  k->delete(&number, &key, &given, &extra, &error);
  return error;
}

#define PREDEFINED(kind, type) \
  void mpi_##kind##dup_fn_(int *, int *, void *, type *, type *, int *, int *); \
  void mpi_##kind##dup_fn_(int *handle, int *key, void *extra, type *value, type *made, int *flag, int *error) { \
    (void)handle, (void)key, (void)extra, *made = *value, *flag = 1, *error = MPI_SUCCESS; \
  } \
  void mpi_##kind##null_copy_fn_(int *, int *, void *, type *, type *, int *, int *); \
  void mpi_##kind##null_copy_fn_(int *handle, int *key, void *extra, type *value, type *made, int *flag, int *error) { \
    (void)handle, (void)key, (void)extra, (void)value, (void)made, *flag = 0, *error = MPI_SUCCESS; \
  } \
  void mpi_##kind##null_delete_fn_(int *, int *, type *, void *, int *); \
  void mpi_##kind##null_delete_fn_(int *handle, int *key, type *value, void *extra, int *error) { \
    (void)handle, (void)key, (void)value, (void)extra, *error = MPI_SUCCESS; \
  }
PREDEFINED(comm_, MPI_Aint) PREDEFINED(type_, MPI_Aint) PREDEFINED(win_, MPI_Aint) PREDEFINED(, int)
void mpi_conversion_fn_null_(void) {}

static struct key *new_key(copy_function *copy_fn, delete_function *delete_fn, MPI_Aint extra, int is_old) {
  struct key *k = malloc(sizeof *k);
  *k = (struct key){copy_fn, delete_fn, extra, is_old};
  return k;
}

#define KEYS(kind, name, type, is_old) \
  FORTRAN(void, name, (copy_function * copy_fn, delete_function *delete_fn, int *keyval, type *extra, int *ierror)) { \
    CALL(PMPI_##kind##_create_keyval((MPI_##kind##_copy_attr_function *)copy, (MPI_##kind##_delete_attr_function *)delete, \
                                     keyval, new_key(copy_fn, delete_fn, *extra, is_old))); \
  }
KEYS(Comm, comm_create_keyval, MPI_Aint, 0)
KEYS(Type, type_create_keyval, MPI_Aint, 0)
KEYS(Win, win_create_keyval, MPI_Aint, 0)
KEYS(Comm, keyval_create, int, 1)

/* C has addresses of predefined attributes, Fortran their values. */
static MPI_Aint in_fortran(int key, void *value) {
  switch (key) {
  case MPI_WIN_SIZE: return *(MPI_Aint *)value;
  case MPI_TAG_UB: case MPI_IO: case MPI_HOST: case MPI_WTIME_IS_GLOBAL: case MPI_APPNUM: case MPI_LASTUSEDCODE:
  case MPI_UNIVERSE_SIZE: case MPI_WIN_DISP_UNIT: case MPI_WIN_CREATE_FLAVOR: case MPI_WIN_MODEL: return *(int *)value;
  }
  return (MPI_Aint)value;
}

#define ATTRIBUTE(kind, family, name, type) \
  FORTRAN(void, name, (int *handle, int *key, type *value, int *flag, int *ierror)) { \
    void *found; \
    *flag = 0; \
    CALL(PMPI_##kind##_get_attr(TO(family, *handle), *key, &found, flag)); \
    if (*flag) *value = (type)in_fortran(*key, found); \
  }
ATTRIBUTE(Comm, Comm, comm_get_attr, MPI_Aint)
ATTRIBUTE(Type, Datatype, type_get_attr, MPI_Aint)
ATTRIBUTE(Win, Win, win_get_attr, MPI_Aint)
ATTRIBUTE(Comm, Comm, attr_get, int)

/* ---------------------------------------------------------------------------------------------- generalized requests */

struct own_request {
  void (*query)(MPI_Aint *extra, MPI_Status *status, int *error);
  void (*free)(MPI_Aint *extra, int *error);
  void (*cancel)(MPI_Aint *extra, int *is_complete, int *error);
  MPI_Aint extra;
};

static int query_own(void *state, MPI_Status *status) {
  struct own_request *r = state;
  int error = MPI_SUCCESS;
  r->query(&r->extra, status, &error);
  return error;
}

static int free_own(void *state) {
  struct own_request *r = state;
  int error = MPI_SUCCESS;
  r->free(&r->extra, &error);
  free(r);
  return error;
}

static int cancel_own(void *state, int is_complete) {
  struct own_request *r = state;
  int error = MPI_SUCCESS;
  r->cancel(&r->extra, &is_complete, &error);
  return error;
}

FORTRAN(void, grequest_start, (void *query, void *free_fn, void *cancel, MPI_Aint *extra, int *request, int *ierror)) {
  HANDLE(Request, request);
  struct own_request *r = malloc(sizeof *r);
  *r = (struct own_request){query, free_fn, cancel, *extra};
  CALL(PMPI_Grequest_start(query_own, free_own, cancel_own, r, &c_request));
  NUMBER(request);
}

/* --------------------------------------------------- deleted in MPI 3.0, and in use: lengths in bytes are of type INTEGER */

FORTRAN(void, type_extent, (int *datatype, int *extent, int *ierror)) {
  MPI_Aint low, found = 0;
  CALL(PMPI_Type_get_extent(TO(Datatype, *datatype), &low, &found));
  *extent = (int)found;
}

FORTRAN(void, type_hvector, (int *count, int *length, int *stride, int *datatype, int *newtype, int *ierror)) {
  HANDLE(Datatype, newtype);
  CALL(PMPI_Type_create_hvector(*count, *length, *stride, TO(Datatype, *datatype), &c_newtype));
  NUMBER(newtype);
}

#define WIDE(places) \
  MPI_Aint wide[*count > 0 ? *count : 1]; \
  for (int i = 0; i < *count; i++) wide[i] = places[i]

FORTRAN(void, type_hindexed, (int *count, int *lengths, int *places, int *datatype, int *newtype, int *ierror)) {
  WIDE(places);
  HANDLE(Datatype, newtype);
  CALL(PMPI_Type_create_hindexed(*count, lengths, wide, TO(Datatype, *datatype), &c_newtype));
  NUMBER(newtype);
}

FORTRAN(void, type_struct, (int *count, int *lengths, int *places, int *types, int *newtype, int *ierror)) {
  WIDE(places);
  HANDLES(Datatype, types, *count);
  HANDLE(Datatype, newtype);
  CALL(PMPI_Type_create_struct(*count, lengths, wide, c_types, &c_newtype));
  NUMBER(newtype);
}

FORTRAN(void, errhandler_set, (int *comm, int *errhandler, int *ierror)) {
  CALL(PMPI_Comm_set_errhandler(TO(Comm, *comm), TO(Errhandler, *errhandler)));
}
