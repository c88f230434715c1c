/* The calls of MPI that the backend makes, as a table of plain C functions.
 *
 * Every MPI has an ABI of its own. So what includes mpi.h is one small library, shim.c, which is
 * loaded when it is needed: the programs themselves start on hosts without MPI, and for another MPI
 * only this is built again: mpicc -shared -fPIC -o liblockstep_mpi.so shim.c */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What MPI knows of a message under way. */
typedef struct {
  uint64_t handle;
} lockstep_mpi_request;

/* Functions return 0, one of these, or an error code of MPI, which explain() explains.
 * Threads: any, one at a time. All messages are of one communicator, which no other code has. */
enum {
  LOCKSTEP_MPI_IN_USE = -1,  /* something else in this process has initialized MPI */
  LOCKSTEP_MPI_THREADS = -2, /* this MPI is for programs of one thread only */
};

typedef struct {
  /* Of the library: "Open MPI v4.1.4". At any time. */
  void (*describe)(char* text, size_t size);
  /* Returns when every process of the job has called it. At most once in a process. */
  int (*init)(void);
  /* Returns when every process of the job has called it; by the thread that called init(). */
  int (*finalize)(void);
  int (*rank_and_size)(int* rank, int* size);
  /* Copies process 0's bytes to all; every process calls it. */
  int (*share)(void* data, int size_bytes);
  /* `data` is borrowed until the request is done. */
  int (*send)(const void* data, int size_bytes, int to, lockstep_mpi_request* request);
  /* Takes a message from any process, in the order in which each has sent. */
  int (*receive)(void* data, int capacity_bytes, lockstep_mpi_request* request);
  /* The last two are those of a received message. */
  int (*test)(lockstep_mpi_request* request, int* done, int* from, int* size_bytes);
  /* Takes a receive back, or ends with its message. */
  int (*cancel_receive)(lockstep_mpi_request* request);
  void (*explain)(int code, char* text, size_t size);
} lockstep_mpi;

/* The library's one symbol. Another table would have another name. */
#define LOCKSTEP_MPI_ENTRY "lockstep_mpi_1"
typedef const lockstep_mpi* (*lockstep_mpi_entry)(void);

#ifdef __cplusplus
}
#endif
