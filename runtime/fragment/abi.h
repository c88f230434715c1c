/* What a worker and a compiled fragment know of each other. Plain C: the fragment's side is made by
 * a compiler.
 *
 * A fragment is a shared object with two entries. The worker loads it, asks
 * LOCKSTEP_FRAGMENT_SIZES_SYMBOL how large the results will be, makes room for them, and calls
 * LOCKSTEP_FRAGMENT_RUN_SYMBOL, which writes them in place.
 *
 * Threads: an object keeps no state, so any number of calls may be under way at once, each with a
 * context of its own. A call uses its own thread, and those of the context's parallel(), each with
 * a context that parallel() gives it; it calls a context's functions from that thread alone.
 * Ownership: everything is borrowed for the call. Arguments are only read, and may overlap
 * each other. Results overlap neither arguments nor each other. Errors: the entries return a code;
 * `error` of the context tells the place. The contents of results are then undefined. Memory that
 * was allocated and not released is the caller's to free, after every call, however it ended.
 */
#ifndef LOCKSTEP_RUNTIME_FRAGMENT_ABI_H_
#define LOCKSTEP_RUNTIME_FRAGMENT_ABI_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes with every change of what is below, and is part of the entries' names: an object for
 * another version has no entry that could be called by mistake. */
#define LOCKSTEP_FRAGMENT_ABI_VERSION 2
#define LOCKSTEP_FRAGMENT_RUN_SYMBOL "lockstep_fragment_run_2"
#define LOCKSTEP_FRAGMENT_SIZES_SYMBOL "lockstep_fragment_sizes_2"

/* What an entry, and a function of the context, returns. */
enum {
  LOCKSTEP_FRAGMENT_OK = 0,
  LOCKSTEP_FRAGMENT_ABORTED = 1,           /* the context's flag was set */
  LOCKSTEP_FRAGMENT_DIVIDED_BY_ZERO = 2,   /* integer division or remainder */
  LOCKSTEP_FRAGMENT_DIVISION_OVERFLOW = 3, /* the least integer divided by -1, or its remainder */
  LOCKSTEP_FRAGMENT_OUT_OF_MEMORY = 4,     /* refused by allocate(), or more than 2^63 bytes */
  LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS = 5,     /* an index, a slice, or operands of unequal sizes */
  LOCKSTEP_FRAGMENT_RESULT_SIZE = 6,       /* a result has another size than there is room for */
  LOCKSTEP_FRAGMENT_NEGATIVE_SIZE = 7      /* a tensor of negative extent was made */
};

/* A dense tensor, row-major and packed. A scalar is a tensor of rank 0. The dtype and rank are the
 * signature's. A bool is a byte, 0 or 1. The pointers may be null where there is nothing to point
 * to: no elements, rank 0, not asked for. */
typedef struct LockstepFragmentTensor {
  void* data;           /* aligned as its elements are; 64 bytes make it faster */
  const int64_t* sizes; /* extents, one for each dimension */
  /* Of arguments only: where this part begins in the whole tensor, and the shape of that. Read if
   * the signature says that the fragment asks for them. */
  const int64_t* offsets;
  const int64_t* global_sizes;
} LockstepFragmentTensor;

/* c[b] += a[b] * b[b] for `batches` products of matrices: [m, k] by [k, n] gives [m, n]. */
typedef struct LockstepFragmentMatmul {
  int32_t is_double;    /* elements are double (1) or float (0) */
  int32_t a_transposed; /* `a` lies as [k, m], `b` as [n, k] */
  int32_t b_transposed;
  int64_t batches, m, n, k; /* none is 0 */
  const void* a;
  const void* b;
  void* c;
  /* Elements from one row, as it lies in memory, to the next, and from one matrix to the next. */
  int64_t a_row, b_row, c_row;
  int64_t a_batch, b_batch, c_batch;
} LockstepFragmentMatmul;

/* Where a call has failed. The fragment writes it before it returns a code other than OK. */
typedef struct LockstepFragmentError {
  const char* operation; /* "arith.divsi"; in the object: valid while that is loaded */
  uint32_t line;         /* in the fragment's text, from 1; 0: unknown */
  uint32_t column;
} LockstepFragmentError;

/* Computes iterations [begin, end) of a loop, and returns a code. `frame` is what parallel() was
 * given. It has a context of its own, which has no parallel(). */
struct LockstepFragmentContext;
typedef int32_t (*LockstepFragmentBody)(struct LockstepFragmentContext* context, const void* frame,
                                        int64_t begin, int64_t end);

typedef struct LockstepFragmentContext {
  /* Polled: once it is not 0, the call returns ABORTED within some milliseconds, as long as the
   * functions below do. */
  const volatile int32_t* abort;
  /* Memory for intermediate values, aligned to 64 bytes; null: there is no more. `bytes` is not 0.
   */
  void* (*allocate)(struct LockstepFragmentContext* context, uint64_t bytes);
  /* What allocate() gave, and is no longer needed. */
  void (*release)(struct LockstepFragmentContext* context, void* memory);
  /* Multiplies by a BLAS, and polls `abort`; returns a code. Null: there is none, and the fragment
   * uses its loops. runtime/fragment/blas.h has one. */
  int32_t (*matmul)(struct LockstepFragmentContext* context, const LockstepFragmentMatmul* matmul);
  /* Calls `body`, on several threads, for ranges that together are [0, count), each of which begins
   * at a multiple of `grain`; returns when all of them have. A failure is that of the first range
   * that has failed, whatever came first in time, and its place is in this context's `error`;
   * ranges behind it may not have been computed. Null: there is one thread, and the fragment calls
   * `body` itself. runtime/fragment/loop_threads.h has one. */
  int32_t (*parallel)(struct LockstepFragmentContext* context, LockstepFragmentBody body,
                      const void* frame, int64_t count, int64_t grain);
  void* threads; /* parallel()'s own */
  /* The caller's own. */
  void* caller;
  LockstepFragmentError error;
} LockstepFragmentContext;

/* Computes. `arguments` and `results` are in the signature's order. */
typedef int32_t (*LockstepFragmentRun)(LockstepFragmentContext* context,
                                       const LockstepFragmentTensor* arguments,
                                       const LockstepFragmentTensor* results);

/* Writes the extents of all results, one after the other, to `sizes`: as many as the results' ranks
 * add up to. -1 for those of results whose sizes are not known before it runs
 * (FragmentResult.sizesKnown in schemas/fragment.capnp).
 *
 * Of the arguments it reads sizes, offsets, global sizes, and the data of scalars; not those of
 * tensors. It allocates nothing, and computes no longer than a moment. */
typedef int32_t (*LockstepFragmentSizes)(LockstepFragmentContext* context,
                                         const LockstepFragmentTensor* arguments, int64_t* sizes);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* LOCKSTEP_RUNTIME_FRAGMENT_ABI_H_ */
