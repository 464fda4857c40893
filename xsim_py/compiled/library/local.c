/* Functions of MPI that the program answers: addresses, threads, and the tools interface, which has nothing to offer. */
#include "runtime.h"
#include "numbers.h"
#include "mpi.h"

#define PROFILED(type, name, parameters) \
  type PMPI_##name parameters; \
  type MPI_##name parameters __attribute__((weak, alias("PMPI_" #name))); \
  type PMPI_##name parameters

PROFILED(int, Get_address, (const void *location, MPI_Aint *address)) {
  *address = (MPI_Aint)location;
  return MPI_SUCCESS;
}
PROFILED(MPI_Aint, Aint_add, (MPI_Aint base, MPI_Aint disp)) { return base + disp; }
PROFILED(MPI_Aint, Aint_diff, (MPI_Aint addr1, MPI_Aint addr2)) { return addr1 - addr2; }

PROFILED(int, Is_thread_main, (int *flag)) {
  int error = (int)xsim_call(XSIM_IS_THREAD_MAIN, 1, (const int64_t[]){L(flag)}, SITE);
  if (!error) *flag = xsim_is_main_thread();
  return error;
}

static int tools; /* how often they have been initialized */

int xsim_tool(int error) { return tools ? error : MPI_T_ERR_NOT_INITIALIZED; }

int xsim_no_tools(int *number) {
  if (tools) *number = 0;
  return xsim_tool(MPI_SUCCESS);
}

PROFILED(int, T_init_thread, (int required, int *provided)) {
  tools++;
  *provided = required;
  return MPI_SUCCESS;
}
PROFILED(int, T_finalize, (void)) {
  int error = xsim_tool(MPI_SUCCESS);
  tools -= tools > 0;
  return error;
}
PROFILED(int, T_pvar_session_create, (MPI_T_pvar_session * pe_session)) {
  static char session;
  *pe_session = (MPI_T_pvar_session)&session;
  return xsim_tool(MPI_SUCCESS);
}
PROFILED(int, T_pvar_session_free, (MPI_T_pvar_session * pe_session)) {
  *pe_session = MPI_T_PVAR_SESSION_NULL;
  return xsim_tool(MPI_SUCCESS);
}
