#include "tests/fakes/nccl/fake_nccl.h"

#include <cuda.h>
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/fakes/nccl/arithmetic.h"
#include "tests/fakes/nccl/meeting.h"

namespace lockstep::fake_nccl {
namespace {

std::atomic<int> async_error{ncclSuccess};
std::atomic<int> live{0};
std::atomic<int> aborts{0};
std::atomic<int> destroyed_before_graphs{0};
// How often each piece of memory is registered.
std::mutex registrations_mutex;
std::map<void*, int> registrations;
void NoteRegistration(void* memory, int more) {
  std::lock_guard lock(registrations_mutex);
  registrations[memory] += more;
}
std::atomic<int> allreduces_of_registered{0};
constexpr size_t kBufferBytes = size_t{1} << 20;
thread_local std::string last_error;

std::byte* View(const void* address) {
  return static_cast<std::byte*>(fake_cuda_host_view(address));
}

// One operation on the stream: what it sends and receives first, what it computes then, and what it
// sends and receives after that.
struct Operation {
  std::vector<Transfer> first;
  std::function<void()> compute;
  std::vector<Transfer> second;
};

struct Submission {
  ncclComm_t comm;
  CUstream stream;
  Operation operation;
};

thread_local int group_depth = 0;
thread_local std::vector<Submission> group;

}  // namespace
}  // namespace lockstep::fake_nccl

using namespace lockstep::fake_nccl;

namespace lockstep::fake_nccl {

// Operations that a stream has yet to come to.
struct Outstanding {
  std::mutex mutex;
  std::condition_variable changed;
  int count = 0;

  void Add(int more) {
    std::lock_guard lock(mutex);
    count += more;
    changed.notify_all();
  }
  bool Any() {
    std::lock_guard lock(mutex);
    return count > 0;
  }
  void AwaitNone() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return count == 0; });
  }
};

}  // namespace lockstep::fake_nccl

struct ncclComm {
  std::shared_ptr<Meeting> meeting;
  const int device;  // that was current when it was begun
  std::atomic<int> splits{0};
  std::shared_ptr<Outstanding> outstanding = std::make_shared<Outstanding>();
  // Graphs that have captured what it does.
  std::shared_ptr<Outstanding> captured = std::make_shared<Outstanding>();
  std::atomic<bool> is_closing{false};
  // A split that not all ranks have come to, and where to write what comes of it.
  std::mutex split_mutex = {};
  ncclComm* split = nullptr;
  ncclComm** split_made = nullptr;
  // What was begun and is not in the stream yet: it comes there with the last of some questions
  // (ncclCommGetAsyncError). NCCL has a thread for that, as fast or slow as it happens to be.
  std::mutex begun_mutex = {};
  std::vector<Submission> begun = {};
  int questions_left = 0;
  // What it works in: allocated with the first collective.
  void* buffer = nullptr;
  ncclResult_t failure = ncclSuccess;

  // As NCCL, which refuses every use of a communicator that is not through with the last one.
  bool IsReady() {
    {
      std::lock_guard lock(begun_mutex);
      if (!begun.empty()) return false;
    }
    std::lock_guard lock(split_mutex);
    return meeting->AllAreHere() && split == nullptr && !is_closing;
  }
  // Where each piece of registered memory begins and ends.
  std::map<std::byte*, std::byte*> registered = {};

  bool HasRegistered(const void* memory, size_t bytes) const {
    const auto* const begin = static_cast<const std::byte*>(memory);
    return std::any_of(registered.begin(), registered.end(), [&](const auto& piece) {
      return begin >= piece.first && begin + bytes <= piece.second;
    });
  }

  int rank() const { return meeting->rank(); }
  int size() const { return meeting->size(); }
  Transfer Out(int to, const void* memory, size_t bytes) {
    return {&meeting->To(to), true, View(memory), bytes};
  }
  Transfer In(int from, void* memory, size_t bytes) {
    return {&meeting->From(from), false, View(memory), bytes};
  }
};

namespace lockstep::fake_nccl {
namespace {

// Everything that was submitted together is done together: once, or with each launch of the graph
// that it was captured in.
void Submit(std::vector<Submission> together) {
  if (together.empty()) return;
  struct Work {
    std::vector<Operation> operations;
    std::shared_ptr<Meeting> meeting;
    std::shared_ptr<Outstanding> outstanding;
    ~Work() { outstanding->Add(-1); }
    void Do() const {
      std::vector<Transfer> first;
      std::vector<Transfer> second;
      for (const Operation& operation : operations) {
        first.insert(first.end(), operation.first.begin(), operation.first.end());
        second.insert(second.end(), operation.second.begin(), operation.second.end());
      }
      if (!meeting->Run(std::move(first))) return;
      for (const Operation& operation : operations) {
        if (operation.compute) operation.compute();
      }
      meeting->Run(std::move(second));
    }
    static void DoOnce(void* argument) {
      std::unique_ptr<Work>(static_cast<Work*>(argument))->Do();
    }
    static void DoAgain(void* argument) { static_cast<const Work*>(argument)->Do(); }
    static void Release(void* argument) { delete static_cast<Work*>(argument); }
  };
  auto work = std::make_unique<Work>();
  work->meeting = together.front().comm->meeting;
  const CUstream stream = together.front().stream;
  const bool is_captured = fake_cuda_is_capturing(stream) != 0;
  const ncclComm& comm = *together.front().comm;
  work->outstanding = is_captured ? comm.captured : comm.outstanding;
  work->outstanding->Add(1);
  for (Submission& submission : together) {
    work->operations.push_back(std::move(submission.operation));
  }
  if (is_captured) return fake_cuda_capture(stream, Work::DoAgain, work.release(), Work::Release);
  fake_cuda_enqueue(stream, Work::DoOnce, work.release());
}

// Begins what was submitted together, for the communicator's next questions.
ncclResult_t BeginAll(std::vector<Submission> together) {
  constexpr int kQuestions = 3;
  if (together.empty()) return ncclSuccess;
  ncclComm_t const comm = together.front().comm;
  // CUDA refuses to launch the kernel.
  if (fake_cuda_device_of_stream(together.front().stream) != comm->device) {
    return ncclUnhandledCudaError;
  }
  std::lock_guard lock(comm->begun_mutex);
  comm->begun = std::move(together);
  comm->questions_left = kQuestions;
  return ncclInProgress;
}

ncclResult_t Add(ncclComm_t comm, cudaStream_t stream, Operation operation) {
  if (!comm->IsReady()) return ncclInvalidArgument;
  std::vector<Submission> one;
  one.push_back({comm, stream, std::move(operation)});
  if (group_depth == 0) return BeginAll(std::move(one));
  group.push_back(std::move(one.front()));
  return ncclSuccess;
}

// All ranks' data to `root`, which combines it into `recv`, if it is not null.
Operation ReduceTo(ncclComm_t comm, int root, const void* send, void* recv, size_t count,
                   ncclDataType_t type, ncclRedOp_t op) {
  const DType dtype = DTypeOf(type);
  const size_t bytes = count * SizeOf(dtype);
  Operation operation;
  if (comm->rank() != root) {
    operation.first.push_back(comm->Out(root, send, bytes));
    return operation;
  }
  auto others = std::make_shared<std::vector<std::vector<std::byte>>>();
  std::vector<const std::byte*> parts;
  others->resize(static_cast<size_t>(comm->size()));
  for (int r = 0; r < comm->size(); ++r) {
    std::vector<std::byte>& part = (*others)[static_cast<size_t>(r)];
    if (r == root) {
      parts.push_back(View(send));
      continue;
    }
    part.resize(bytes);
    parts.push_back(part.data());
    operation.first.push_back(comm->In(r, part.data(), bytes));
  }
  operation.compute = [others, parts, out = View(recv), count, dtype, op] {
    Reduce(parts, out, count, dtype, op);
  };
  return operation;
}

void CopyWithin(Operation& operation, const void* from, void* to, size_t bytes) {
  operation.compute = [from = View(from), to = View(to), bytes] {
    if (from != to && bytes > 0) std::memmove(to, from, bytes);
  };
}

size_t BytesOf(size_t count, ncclDataType_t type) { return count * SizeOf(DTypeOf(type)); }

const std::byte* Part(const void* memory, int part, size_t bytes) {
  return static_cast<const std::byte*>(memory) + static_cast<size_t>(part) * bytes;
}
std::byte* Part(void* memory, int part, size_t bytes) {
  return static_cast<std::byte*>(memory) + static_cast<size_t>(part) * bytes;
}

ncclComm_t Begin(const std::string& name, int rank, int size) {
  ++live;
  // NCCL takes the CUDA runtime's, which is the first if none was chosen.
  return new ncclComm{std::make_shared<Meeting>(name, rank, size),
                      std::max(fake_cuda_current_device(), 0)};
}

}  // namespace
}  // namespace lockstep::fake_nccl

extern "C" {

void fake_nccl_set_async_error(int result) { async_error = result; }
int fake_nccl_live_communicators() { return live; }
int fake_nccl_aborts() { return aborts; }
int fake_nccl_destroyed_before_graphs() { return destroyed_before_graphs; }
int fake_nccl_live_registrations() {
  std::lock_guard lock(registrations_mutex);
  int live_ones = 0;
  for (const auto& [memory, count] : registrations) live_ones += count;
  return live_ones;
}
int fake_nccl_allreduces_of_registered() { return allreduces_of_registered; }

ncclResult_t ncclGetVersion(int* version) {
#ifdef FAKE_NCCL_OLD
  *version = 21801;
#else
  const char* const given = std::getenv("FAKE_NCCL_VERSION");
  *version = given != nullptr ? std::atoi(given) : NCCL_VERSION_CODE;
#endif
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSuccess ? "no error" : "an error of the fake";
}
const char* ncclGetLastError(ncclComm_t) { return last_error.c_str(); }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device random;
  // Not of those that workers sweep when they start.
  const std::string name = "/fake-nccl-" + std::to_string(random()) + std::to_string(random());
  std::memset(id->internal, 0, sizeof id->internal);
  std::memcpy(id->internal, name.data(), name.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (size > kMostRanks || config->blocking != 0) return ncclInvalidArgument;
  *comm = Begin(id.internal, rank, size);
  return ncclInProgress;
}

// Among all ranks alone.
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t*) {
  if (color != 0 || key != comm->rank() || !comm->IsReady()) return ncclInvalidArgument;
  std::lock_guard lock(comm->split_mutex);
  comm->split = Begin(comm->meeting->name() + "-" + std::to_string(comm->splits++), comm->rank(),
                      comm->size());
  comm->split_made = made;
  return ncclInProgress;
}
// As with NCCL it is through when the stream has come to what the communicator put there, and what
// it has sent is on its way.
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (!comm->IsReady()) return ncclInvalidArgument;
  comm->is_closing = true;
  return ncclInProgress;
}

// NCCL waits for ever for graphs that have captured what the communicator does.
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm->captured->Any()) {
    ++destroyed_before_graphs;
    std::fputs("fake libnccl: a communicator is destroyed before a graph that uses it\n", stderr);
    return ncclInvalidUsage;
  }
  --live;
  if (comm->buffer != nullptr) fake_cuda_free(comm->buffer);
  delete comm;
  return ncclSuccess;
}

// As with NCCL it comes back when the stream has come to what the communicator put there, and what
// others have yet to get of it they do not get any more; and when the graphs are destroyed that
// have captured it, whose launches end by it.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->meeting->End();
  comm->outstanding->AwaitNone();
  // Nothing that was captured comes to an end by an abort: who holds the graphs destroys them.
  comm->captured->AwaitNone();
  for (int r = 0; r < comm->size(); ++r) {
    if (r != comm->rank()) comm->meeting->To(r).TakeBack();
  }
  for (const auto& [begin, end] : comm->registered) NoteRegistration(begin, -1);
  {
    std::lock_guard lock(comm->split_mutex);
    if (comm->split != nullptr) {
      *comm->split_made = nullptr;
      ncclCommDestroy(comm->split);
    }
  }
  ++aborts;
  return ncclCommDestroy(comm);
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  *state = static_cast<ncclResult_t>(async_error.load());
  if (*state == ncclSuccess) *state = comm->failure;
  const bool is_behind =
      !comm->meeting->AllAreHere() ||
      (comm->is_closing && (comm->outstanding->Any() || !comm->meeting->IsFlushed()));
  if (*state == ncclSuccess && is_behind) *state = ncclInProgress;
  {
    std::lock_guard begun_lock(comm->begun_mutex);
    if (*state == ncclSuccess && !comm->begun.empty()) {
      if (--comm->questions_left > 0) {
        *state = ncclInProgress;
      } else if (comm->buffer == nullptr &&
                 (comm->buffer = fake_cuda_allocate(kBufferBytes)) == nullptr) {
        last_error = "Failed to CUDA calloc " + std::to_string(kBufferBytes) + " bytes";
        comm->begun.clear();
        *state = comm->failure = ncclUnhandledCudaError;
      } else {
        Submit(std::exchange(comm->begun, {}));
      }
    }
  }
  std::lock_guard lock(comm->split_mutex);
  if (comm->split == nullptr || *state != ncclSuccess) return ncclSuccess;
  if (!comm->split->meeting->AllAreHere()) {
    *state = ncclInProgress;
    return ncclSuccess;
  }
  *comm->split_made = comm->split;
  comm->split = nullptr;
  return ncclSuccess;
}

#ifndef FAKE_NCCL_OLD
ncclResult_t ncclMemAlloc(void** memory, size_t bytes) {
  *memory = fake_cuda_allocate(bytes);
  return *memory == nullptr ? ncclUnhandledCudaError : ncclSuccess;
}

// As with NCCL, no communicator may have it registered any more.
ncclResult_t ncclMemFree(void* memory) {
  {
    std::lock_guard lock(registrations_mutex);
    if (registrations[memory] > 0) return ncclInvalidUsage;
  }
  fake_cuda_free(memory);
  return ncclSuccess;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* memory, size_t bytes, void** handle) {
  auto* const begin = static_cast<std::byte*>(memory);
  comm->registered[begin] = begin + bytes;
  NoteRegistration(memory, 1);
  *handle = memory;
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  if (comm->registered.erase(static_cast<std::byte*>(handle)) == 0) return ncclInvalidArgument;
  NoteRegistration(handle, -1);
  return ncclSuccess;
}
#endif

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  return --group_depth == 0 ? BeginAll(std::exchange(group, {})) : ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  const size_t bytes = BytesOf(count, type);
  if (comm->HasRegistered(send, bytes) && comm->HasRegistered(recv, bytes)) {
    ++allreduces_of_registered;
  }
  Operation operation = ReduceTo(comm, 0, send, recv, count, type, op);
  for (int r = 1; r < comm->size(); ++r) {
    if (comm->rank() == 0) operation.second.push_back(comm->Out(r, recv, bytes));
    if (comm->rank() == r) operation.second.push_back(comm->In(0, recv, bytes));
  }
  return Add(comm, stream, std::move(operation));
}

ncclResult_t ncclReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return Add(comm, stream, ReduceTo(comm, root, send, recv, count, type, op));
}

ncclResult_t ncclReduceScatter(const void* send, void* recv, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  ncclGroupStart();
  for (int r = 0; r < comm->size(); ++r) {
    ncclReduce(Part(send, r, BytesOf(count, type)), recv, count, type, op, r, comm, stream);
  }
  return ncclGroupEnd();
}

ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  Operation operation;
  operation.first.push_back(comm->Out(peer, send, BytesOf(count, type)));
  return Add(comm, stream, std::move(operation));
}

ncclResult_t ncclRecv(void* recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  Operation operation;
  operation.first.push_back(comm->In(peer, recv, BytesOf(count, type)));
  return Add(comm, stream, std::move(operation));
}

ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  Operation operation;
  const size_t bytes = BytesOf(count, type);
  if (comm->rank() != root) {
    operation.first.push_back(comm->In(root, recv, bytes));
  } else {
    for (int r = 0; r < comm->size(); ++r) {
      if (r != root) operation.first.push_back(comm->Out(r, send, bytes));
    }
    CopyWithin(operation, send, recv, bytes);
  }
  return Add(comm, stream, std::move(operation));
}

ncclResult_t ncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  Operation operation;
  const size_t bytes = BytesOf(count, type);
  for (int r = 0; r < comm->size(); ++r) {
    if (r == comm->rank()) continue;
    operation.first.push_back(comm->Out(r, send, bytes));
    operation.first.push_back(comm->In(r, Part(recv, r, bytes), bytes));
  }
  CopyWithin(operation, send, Part(recv, comm->rank(), bytes), bytes);
  return Add(comm, stream, std::move(operation));
}

#ifndef FAKE_NCCL_OLD
ncclResult_t ncclGather(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  Operation operation;
  const size_t bytes = BytesOf(count, type);
  if (comm->rank() != root) {
    operation.first.push_back(comm->Out(root, send, bytes));
  } else {
    for (int r = 0; r < comm->size(); ++r) {
      if (r != root) operation.first.push_back(comm->In(r, Part(recv, r, bytes), bytes));
    }
    CopyWithin(operation, send, Part(recv, root, bytes), bytes);
  }
  return Add(comm, stream, std::move(operation));
}

ncclResult_t ncclScatter(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                         ncclComm_t comm, cudaStream_t stream) {
  Operation operation;
  const size_t bytes = BytesOf(count, type);
  if (comm->rank() != root) {
    operation.first.push_back(comm->In(root, recv, bytes));
  } else {
    for (int r = 0; r < comm->size(); ++r) {
      if (r != root) operation.first.push_back(comm->Out(r, Part(send, r, bytes), bytes));
    }
    CopyWithin(operation, Part(send, root, bytes), recv, bytes);
  }
  return Add(comm, stream, std::move(operation));
}

ncclResult_t ncclAlltoAll(const void* send, void* recv, size_t count, ncclDataType_t type,
                          ncclComm_t comm, cudaStream_t stream) {
  ncclGroupStart();
  for (int r = 0; r < comm->size(); ++r) {
    ncclSend(Part(send, r, BytesOf(count, type)), count, type, r, comm, stream);
    ncclRecv(Part(recv, r, BytesOf(count, type)), count, type, r, comm, stream);
  }
  return ncclGroupEnd();
}
#endif

}  // extern "C"
