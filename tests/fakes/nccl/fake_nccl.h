// A libnccl.so.2 for machines without a GPU: what of NCCL runtime/collective/nccl uses, done by the
// CPU on the memory of the fake GPUs, between threads and processes of one host.
//
// As NCCL does, it never notices that a rank died, and waits for ever for one that does not come:
// only an abort ends that. It reduces in rank order, 16-bit floats in float.
//
// $FAKE_NCCL_VERSION is what it says to be (23000 is 2.30.0), else the version of the header.
//
// A communicator allocates memory, 1 MiB, when its first collective begins.
//
// What is put into a stream that is captured becomes part of the graph, and is done with each
// launch. Its communicator lives until the graph is destroyed: an abort waits for that, as NCCL's
// does, and an end in order is refused, for which NCCL would wait.
//
// All communicators are non-blocking. A collective returns ncclInProgress, and is not in the stream
// before ncclCommGetAsyncError() was asked a few times; any other use of the communicator until
// then is refused, as NCCL does. A communicator is of the GPU that was current when it was begun.
#pragma once

extern "C" {

// From now on every communicator of this process tells of this error (an ncclResult_t) in the
// background; 0: none any more.
void fake_nccl_set_async_error(int result);
// How many communicators of this process were begun, and not destroyed or aborted since.
int fake_nccl_live_communicators(void);
// How often one was to be destroyed while there were graphs that have captured what it does.
int fake_nccl_destroyed_before_graphs(void);
// How many were aborted.
int fake_nccl_aborts(void);
// Memory that communicators of this process have registered and not given back.
int fake_nccl_live_registrations(void);
// Allreduces of this process from and to memory that their communicator has registered.
int fake_nccl_allreduces_of_registered(void);

}  // extern "C"
