/* Functions of the program that the simulator calls back; see child.py for the kinds. */
#include "runtime.h"
#include "mpi.h"

enum { ERROR_HANDLER, OPERATION, OPERATION_LARGE, COPY, DELETE, QUERY, FREE, CANCEL };

int64_t xsim_call_back(uint32_t kind, uint64_t function, int64_t *a) {
  int number = (int)a[1], flag = 0;
  MPI_Count large = a[2];
  int small = (int)a[2];
  switch (kind) {
  case ERROR_HANDLER: ((MPI_Comm_errhandler_function *)function)((MPI_Comm *)&a[0], &number); return 0;
  case OPERATION: ((MPI_User_function *)function)((void *)a[0], (void *)a[1], &small, (MPI_Datatype *)&a[3]); return 0;
  case OPERATION_LARGE:
    ((MPI_User_function_c *)function)((void *)a[0], (void *)a[1], &large, (MPI_Datatype *)&a[3]);
    return 0;
  case COPY: /* handle, key, extra state, value; the result and the new value come back in the arguments */
    xsim_page->arguments[0] = ((MPI_Comm_copy_attr_function *)function)(
        (MPI_Comm)a[0], number, (void *)a[2], (void *)a[3], &xsim_page->arguments[1], &flag);
    xsim_page->arguments[2] = flag;
    return xsim_page->arguments[0];
  case DELETE: return ((MPI_Comm_delete_attr_function *)function)((MPI_Comm)a[0], number, (void *)a[2], (void *)a[3]);
  case QUERY: return ((MPI_Grequest_query_function *)function)((void *)a[0], (MPI_Status *)a[1]);
  case FREE: return ((MPI_Grequest_free_function *)function)((void *)a[0]);
  case CANCEL: return ((MPI_Grequest_cancel_function *)function)((void *)a[0], number);
  }
  return MPI_ERR_INTERN;
}
