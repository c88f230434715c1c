#include "shim.h"

#include <mpi.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(MPI_Request) <= sizeof(uint64_t), "a request does not fit its handle");

enum { kTag = 0 };

static MPI_Comm comm = MPI_COMM_NULL;

static MPI_Request LoadRequest(const lockstep_mpi_request* request) {
  MPI_Request loaded;
  memcpy(&loaded, &request->handle, sizeof(MPI_Request));
  return loaded;
}

static void StoreRequest(lockstep_mpi_request* request, MPI_Request stored) {
  memcpy(&request->handle, &stored, sizeof(MPI_Request));
}

static void Describe(char* text, size_t size) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(version, &length);
  /* The rest is how it was built. */
  snprintf(text, size, "%.*s", (int)strcspn(version, ",\n"), version);
  for (char* at = text; (at = strchr(at, '\t')) != NULL;) *at = ' ';
}

static int Init(void) {
  int in_use = 0;
  MPI_Initialized(&in_use);
  if (in_use) return LOCKSTEP_MPI_IN_USE;
  int provided = MPI_THREAD_SINGLE;
  const int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
  if (code != MPI_SUCCESS) return code;
  if (provided < MPI_THREAD_SERIALIZED) return LOCKSTEP_MPI_THREADS;
  /* Modules may use the world's. */
  const int copied = MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  if (copied != MPI_SUCCESS) return copied;
  return MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
}

static int Finalize(void) { return MPI_Finalize(); }

static int RankAndSize(int* rank, int* size) {
  const int code = MPI_Comm_rank(comm, rank);
  return code == MPI_SUCCESS ? MPI_Comm_size(comm, size) : code;
}

static int Share(void* data, int size_bytes) {
  return MPI_Bcast(data, size_bytes, MPI_BYTE, 0, comm);
}

static int Send(const void* data, int size_bytes, int to, lockstep_mpi_request* request) {
  MPI_Request started = MPI_REQUEST_NULL;
  const int code = MPI_Isend(data, size_bytes, MPI_BYTE, to, kTag, comm, &started);
  StoreRequest(request, started);
  return code;
}

static int Receive(void* data, int capacity_bytes, lockstep_mpi_request* request) {
  MPI_Request started = MPI_REQUEST_NULL;
  const int code = MPI_Irecv(data, capacity_bytes, MPI_BYTE, MPI_ANY_SOURCE, kTag, comm, &started);
  StoreRequest(request, started);
  return code;
}

static int Test(lockstep_mpi_request* request, int* done, int* from, int* size_bytes) {
  MPI_Request tested = LoadRequest(request);
  MPI_Status status;
  const int code = MPI_Test(&tested, done, &status);
  StoreRequest(request, tested);
  if (code != MPI_SUCCESS || !*done) return code;
  *from = status.MPI_SOURCE;
  return MPI_Get_count(&status, MPI_BYTE, size_bytes);
}

static int CancelReceive(lockstep_mpi_request* request) {
  MPI_Request cancelled = LoadRequest(request);
  const int code = MPI_Cancel(&cancelled);
  return code == MPI_SUCCESS ? MPI_Wait(&cancelled, MPI_STATUS_IGNORE) : code;
}

static void Explain(int code, char* text, size_t size) {
  char error[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (code == LOCKSTEP_MPI_IN_USE) {
    snprintf(text, size, "something else in this process has initialized MPI");
  } else if (code == LOCKSTEP_MPI_THREADS) {
    snprintf(text, size, "this MPI does not take calls from more than one thread");
  } else if (MPI_Error_string(code, error, &length) == MPI_SUCCESS) {
    snprintf(text, size, "%s", error);
  } else {
    snprintf(text, size, "error %d of MPI", code);
  }
}

const lockstep_mpi* lockstep_mpi_1(void);
const lockstep_mpi* lockstep_mpi_1(void) {
  static const lockstep_mpi table = {
      .describe = Describe,
      .init = Init,
      .finalize = Finalize,
      .rank_and_size = RankAndSize,
      .share = Share,
      .send = Send,
      .receive = Receive,
      .test = Test,
      .cancel_receive = CancelReceive,
      .explain = Explain,
  };
  return &table;
}
