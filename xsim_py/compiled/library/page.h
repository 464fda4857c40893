/* The page that a compiled program shares with the simulator: whose turn it is, a call, and its reply. */
#ifndef XSIM_PAGE_H
#define XSIM_PAGE_H
#include <stdint.h>

enum { XSIM_PROGRAM, XSIM_SIMULATOR };                          /* `turn` */
enum { XSIM_CALL, XSIM_RETURNED, XSIM_ENDING };                 /* `request`, by the program */
enum { XSIM_RETURN, XSIM_CALLBACK, XSIM_OBTAIN, XSIM_RELEASE }; /* `reply`, by the simulator */
/* functions that are not of MPI, see system.py; the last: nothing but what is queued */
enum xsim_service { XSIM_CLOCK = 0x8000, XSIM_SLEEP, XSIM_IDENTITY, XSIM_ENTROPY, XSIM_WORK, XSIM_CONTROL, XSIM_FILE, XSIM_AWAIT,
                    XSIM_TELL, XSIM_NODE, XSIM_VARIABLES, XSIM_FLUSH = 0xffff };
enum { XSIM_MOST_ARGUMENTS = 20, XSIM_PATCH_BYTES = 28 << 10, XSIM_PAYLOAD_BYTES = 32 << 10 };
enum { XSIM_QUEUE_BYTES = 32 << 10, XSIM_PAGE_BYTES = 96 << 10 };

struct xsim_queued {
  uint32_t bytes; /* in all, a multiple of 8 */
  uint32_t function;
  uint64_t site;
  int64_t request; /* the handle that the program has got for it */
  int64_t sent;    /* bytes of data */
  int64_t arguments[7];
};

struct xsim_page {
  uint32_t turn;     /* a futex */
  uint32_t request;
  uint32_t reply;
  uint32_t function; /* the number of the function, see calls.c, and 1 << 16 for one of large counts; or a kind of callback */
  uint32_t depth;    /* of callbacks that have not returned */
  uint32_t is_timed; /* whether `cpu_ns` is wanted */
  uint64_t site;     /* the return address of the call; the address of a function to call back */
  int64_t cpu_ns;    /* processor time of the program's process */
  int64_t returned;  /* by a callback */
  int64_t result;    /* of the call; like the next, it is 0 unless the simulator sets it */
  uint32_t patches;  /* bytes in `patch`: writes into the program's memory, each an address, a size, and data */
  int32_t sent;      /* bytes in `payload`, -1: none */
  int32_t capacity;  /* bytes that fit into the receive buffer if `payload` may bring them, else -1 */
  int32_t received;  /* bytes in `payload` for the receive buffer, -1: none; with the status: */
  int32_t source, tag;
  uint32_t is_heard; /* 1: the program has written output since the simulator looked; 2: others may write at any time */
  uint32_t queued;   /* bytes in `queue` */
  uint32_t is_ahead; /* whether the program may go on after a call that the simulator has only to carry out */
  uint32_t is_told;  /* whether the last reply has told the time: */
  double now_s;
  int64_t now_ns;
  int64_t arguments[XSIM_MOST_ARGUMENTS];
  unsigned char sizes[256]; /* of the predefined types without padding, by handle - 0x200; 0 for all others */
  char patch[XSIM_PATCH_BYTES];
  char payload[XSIM_PAYLOAD_BYTES];
  char queue[XSIM_QUEUE_BYTES]; /* calls to carry out before this one, each an `xsim_queued` and data */
};
_Static_assert(sizeof(struct xsim_page) <= XSIM_PAGE_BYTES, "the page is too small");
#endif
