#ifndef XSIM_RUNTIME_H
#define XSIM_RUNTIME_H
#include "page.h"

extern struct xsim_page *xsim_page;
int xsim_tool(int error); /* the result of a function of the tools interface, see local.c */
int xsim_no_tools(int *number);
int64_t xsim_call(uint32_t number, int count, const int64_t *arguments, void *site);
int xsim_is_inside(void); /* whether the calling thread waits for the simulator, in a signal handler */
int64_t xsim_call_back(uint32_t kind, uint64_t function, int64_t *arguments);
#endif
