/* Functions of the program that the simulator calls back; see child.py for the kinds. */
#include "runtime.h"
#include "mpi.h"
#include <stddef.h>

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ERROR_HANDLER, OPERATION, OPERATION_LARGE, COPY, DELETE, QUERY, FREE, CANCEL, MAP, UNMAP };

/* Map memory of a shared window: a file that the simulator has open. Return the address; 0: it cannot be mapped. */
static int64_t map_shared(int64_t simulator, int64_t descriptor, size_t size) {
  char name[64];
  snprintf(name, sizeof name, "/proc/%lld/fd/%lld", (long long)simulator, (long long)descriptor);
  int file = open(name, O_RDWR | O_CLOEXEC);
  if (file < 0) return 0;
  void *found = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return found == MAP_FAILED ? 0 : (int64_t)found;
}

int64_t xsim_call_back(uint32_t kind, uint64_t function, int64_t *a) {
  int number = (int)a[1], flag = 0, code;
  void *copy = NULL;
  MPI_Count large = a[2];
  int small = (int)a[2];
  switch (kind) {
  case ERROR_HANDLER: ((MPI_Comm_errhandler_function *)function)((MPI_Comm *)&a[0], &number); return 0;
  case OPERATION: ((MPI_User_function *)function)((void *)a[0], (void *)a[1], &small, (MPI_Datatype *)&a[3]); return 0;
  case OPERATION_LARGE:
    ((MPI_User_function_c *)function)((void *)a[0], (void *)a[1], &large, (MPI_Datatype *)&a[3]);
    return 0;
  case COPY: /* handle, key, extra state, value; the new value and the flag come back in the arguments */
    code = ((MPI_Comm_copy_attr_function *)function)((MPI_Comm)a[0], number, (void *)a[2], (void *)a[3], &copy, &flag);
    a[0] = (int64_t)copy;
    a[1] = flag;
    return code;
  case DELETE: return ((MPI_Comm_delete_attr_function *)function)((MPI_Comm)a[0], number, (void *)a[2], (void *)a[3]);
  case QUERY: return ((MPI_Grequest_query_function *)function)((void *)a[0], (MPI_Status *)a[1]);
  case FREE: return ((MPI_Grequest_free_function *)function)((void *)a[0]);
  case CANCEL: return ((MPI_Grequest_cancel_function *)function)((void *)a[0], number);
  case MAP: return map_shared(a[0], a[1], (size_t)a[2]);
  case UNMAP: return munmap((void *)a[0], (size_t)a[1]);
  }
  return MPI_ERR_INTERN;
}
