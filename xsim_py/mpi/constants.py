"""Every integer constant of MPI, with its value in the MPI 5.0 standard ABI (chapter 20).

A program must not depend on these values, but results that print them should at least agree with one real MPI. Two
things have no value in that ABI and are our own: the three error classes of user-level failure mitigation, with the
numbers after the last standard class, and the logical type class, with the number in its draft.
"""

from typing import Final

# Wild cards and special ranks.
UNDEFINED: Final = -32766
ANY_SOURCE: Final = -1
ANY_TAG: Final = -2
PROC_NULL: Final = -3
ROOT: Final = -4

# Attribute keys.
KEYVAL_INVALID: Final = 0
TAG_UB: Final = 501
IO: Final = 502
WTIME_IS_GLOBAL: Final = 504
UNIVERSE_SIZE: Final = 507
APPNUM: Final = 505
LASTUSEDCODE: Final = 506
WIN_BASE: Final = 601
WIN_SIZE: Final = 603
WIN_DISP_UNIT: Final = 602
WIN_CREATE_FLAVOR: Final = 604
WIN_FLAVOR: Final = WIN_CREATE_FLAVOR
WIN_MODEL: Final = 605

# Datatype constructors.
ORDER_C: Final = 12
ORDER_FORTRAN: Final = 15
ORDER_F: Final = ORDER_FORTRAN
TYPECLASS_LOGICAL: Final = 191
TYPECLASS_INTEGER: Final = 192
TYPECLASS_REAL: Final = 193
TYPECLASS_COMPLEX: Final = 194
DISTRIBUTE_NONE: Final = 16
DISTRIBUTE_BLOCK: Final = 17
DISTRIBUTE_CYCLIC: Final = 18
DISTRIBUTE_DFLT_DARG: Final = 19
COMBINER_NAMED: Final = 101
COMBINER_DUP: Final = 102
COMBINER_CONTIGUOUS: Final = 103
COMBINER_VECTOR: Final = 104
COMBINER_HVECTOR: Final = 105
COMBINER_INDEXED: Final = 106
COMBINER_HINDEXED: Final = 107
COMBINER_INDEXED_BLOCK: Final = 108
COMBINER_HINDEXED_BLOCK: Final = 109
COMBINER_STRUCT: Final = 110
COMBINER_SUBARRAY: Final = 111
COMBINER_DARRAY: Final = 112
COMBINER_RESIZED: Final = 116
COMBINER_VALUE_INDEX: Final = 117
COMBINER_F90_INTEGER: Final = 115
COMBINER_F90_REAL: Final = 113
COMBINER_F90_COMPLEX: Final = 114

# Layout of a Fortran status, counted in integers.
F_SOURCE: Final = 0
F_TAG: Final = 1
F_ERROR: Final = 2
F_STATUS_SIZE: Final = 8

# Comparisons and topologies.
IDENT: Final = 201
CONGRUENT: Final = 202
SIMILAR: Final = 203
UNEQUAL: Final = 204
CART: Final = 211
GRAPH: Final = 212
DIST_GRAPH: Final = 213
UNWEIGHTED: Final = 10
WEIGHTS_EMPTY: Final = 11
COMM_TYPE_SHARED: Final = 221
COMM_TYPE_HW_GUIDED: Final = 223
COMM_TYPE_HW_UNGUIDED: Final = 222
COMM_TYPE_RESOURCE_GUIDED: Final = 224

# Buffered sends: the overhead of one message in the attached buffer.
BSEND_OVERHEAD: Final = 512

# Windows.
WIN_FLAVOR_CREATE: Final = 311
WIN_FLAVOR_ALLOCATE: Final = 312
WIN_FLAVOR_DYNAMIC: Final = 313
WIN_FLAVOR_SHARED: Final = 314
WIN_SEPARATE: Final = 322
WIN_UNIFIED: Final = 321
MODE_NOCHECK: Final = 1024
MODE_NOSTORE: Final = 8192
MODE_NOPUT: Final = 4096
MODE_NOPRECEDE: Final = 2048
MODE_NOSUCCEED: Final = 16384
LOCK_EXCLUSIVE: Final = 301
LOCK_SHARED: Final = 302

# Files.
MODE_RDONLY: Final = 16
MODE_WRONLY: Final = 256
MODE_RDWR: Final = 32
MODE_CREATE: Final = 2
MODE_EXCL: Final = 8
MODE_DELETE_ON_CLOSE: Final = 4
MODE_UNIQUE_OPEN: Final = 128
MODE_SEQUENTIAL: Final = 64
MODE_APPEND: Final = 1
SEEK_SET: Final = 403
SEEK_CUR: Final = 401
SEEK_END: Final = 402
DISPLACEMENT_CURRENT: Final = -1
DISP_CUR: Final = DISPLACEMENT_CURRENT

# Threads.
THREAD_SINGLE: Final = 0
THREAD_FUNNELED: Final = 1024
THREAD_SERIALIZED: Final = 2048
THREAD_MULTIPLE: Final = 4096

# Version of the standard.
VERSION: Final = 5
SUBVERSION: Final = 0

# Longest strings.
MAX_PROCESSOR_NAME: Final = 256
MAX_ERROR_STRING: Final = 512
MAX_PORT_NAME: Final = 1024
MAX_INFO_KEY: Final = 256
MAX_INFO_VAL: Final = 1024
MAX_OBJECT_NAME: Final = 128
MAX_DATAREP_STRING: Final = 128
MAX_LIBRARY_VERSION_STRING: Final = 8192
MAX_PSET_NAME_LEN: Final = 1024
MAX_STRINGTAG_LEN: Final = 1024

# Error classes.
SUCCESS: Final = 0
ERR_BUFFER: Final = 1
ERR_COUNT: Final = 2
ERR_TYPE: Final = 3
ERR_TAG: Final = 4
ERR_COMM: Final = 5
ERR_RANK: Final = 6
ERR_REQUEST: Final = 7
ERR_ROOT: Final = 8
ERR_GROUP: Final = 9
ERR_OP: Final = 10
ERR_TOPOLOGY: Final = 11
ERR_DIMS: Final = 12
ERR_ARG: Final = 13
ERR_UNKNOWN: Final = 14
ERR_TRUNCATE: Final = 15
ERR_OTHER: Final = 16
ERR_INTERN: Final = 17
ERR_PENDING: Final = 18
ERR_IN_STATUS: Final = 19
ERR_ACCESS: Final = 20
ERR_AMODE: Final = 21
ERR_ASSERT: Final = 22
ERR_BAD_FILE: Final = 23
ERR_BASE: Final = 24
ERR_CONVERSION: Final = 25
ERR_DISP: Final = 26
ERR_DUP_DATAREP: Final = 27
ERR_FILE_EXISTS: Final = 28
ERR_FILE_IN_USE: Final = 29
ERR_FILE: Final = 30
ERR_INFO_KEY: Final = 31
ERR_INFO_NOKEY: Final = 32
ERR_INFO_VALUE: Final = 33
ERR_INFO: Final = 34
ERR_IO: Final = 35
ERR_KEYVAL: Final = 36
ERR_LOCKTYPE: Final = 37
ERR_NAME: Final = 38
ERR_NO_MEM: Final = 39
ERR_NOT_SAME: Final = 40
ERR_NO_SPACE: Final = 41
ERR_NO_SUCH_FILE: Final = 42
ERR_PORT: Final = 43
ERR_QUOTA: Final = 44
ERR_READ_ONLY: Final = 45
ERR_RMA_ATTACH: Final = 46
ERR_RMA_CONFLICT: Final = 47
ERR_RMA_RANGE: Final = 48
ERR_RMA_SHARED: Final = 49
ERR_RMA_SYNC: Final = 50
ERR_SERVICE: Final = 51
ERR_SIZE: Final = 52
ERR_SPAWN: Final = 53
ERR_UNSUPPORTED_DATAREP: Final = 54
ERR_UNSUPPORTED_OPERATION: Final = 55
ERR_WIN: Final = 56
ERR_RMA_FLAVOR: Final = 57
ERR_PROC_ABORTED: Final = 58
ERR_VALUE_TOO_LARGE: Final = 59
ERR_SESSION: Final = 60
ERR_ERRHANDLER: Final = 61
ERR_ABI: Final = 62
ERR_PROC_FAILED: Final = 63
ERR_PROC_FAILED_PENDING: Final = 64
ERR_REVOKED: Final = 65
ERR_LASTCODE: Final = 16383
