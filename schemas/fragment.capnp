@0x8e90d08565c5cca0;
# What the program lockstep-compiler is asked, and what it answers. lockstep-cuda-compiler, which takes CUDA C++ and no
# MLIR, is asked and answers likewise.
#
# One process compiles one fragment. It reads one CompileRequest from its standard input, to the end of the input,
# writes one CompileAnswer to its standard output, and ends with exit code 0, also where the answer is a failure. Both
# are one Cap'n Proto message in the standard stream framing (a segment table, then the segments), and nothing else.
# What it writes to standard error is for people.
#
# Any other end is the fragment's failure as well: exit code 1 (and a line on standard error) if the request cannot be
# read, exit by a signal if the compiler has crashed or has reached a limit that its command line sets
# (services/compiler/README.md).

using Cxx = import "/capnp/c++.capnp";
using V = import "values.capnp";
$Cxx.namespace("lockstep::wire");

struct FragmentType {
  # A tensor, or a scalar (which is passed like a tensor of rank 0).
  dtype @0 :V.DType;
  # float32, float64, int32, int64, or bool.
  shape @1 :List(Int64);
  # Extents; -1: known when it runs.
  scalar @2 :Bool;
  # The fragment says `f64`, and not `tensor<f64>`: the shape is empty.
}

struct FragmentArgument {
  type @0 :FragmentType;
  usesOffset @1 :Bool;
  # The fragment asks where the part that it is given begins in the whole tensor: `offsets` of the argument's
  # descriptor (runtime/fragment/abi.h) must be there.
  usesGlobalShape @2 :Bool;
  # It asks for the shape of the whole tensor: `global_sizes` must be there.
}

struct FragmentResult {
  type @0 :FragmentType;
  sizesKnown @1 :Bool;
  # The object can tell the result's extents before it runs, from the arguments' extents, offsets and scalars. Where
  # false, the caller has to know them, and the object checks them while it runs.
}

struct CompileRequest {
  fragment @0 :Data;
  # MLIR: text, or bytecode (which begins with "ML\xefR"). Or CUDA C++.
  name @1 :Text;
  # What messages call it: a file's name.
  want @2 :Want;
  argumentTypes @3 :List(FragmentType);
  # What the arguments will be, as many as the fragment has. An extent that the fragment leaves open may be given here,
  # and the object is then made for it alone; one that the fragment states may be left open (-1), and must be as the
  # fragment says when it runs. `scalar` is not compared: a tensor of rank 0 fits a scalar and the other way round.
  # Empty: as the fragment says.
  processor @4 :Text;
  # As LLVM names it: "skylake-avx512". Empty: this machine's, and then `features` are this machine's too.
  features @5 :Text;
  # As LLVM writes them: "+avx2,-avx512f". Empty with a processor: what that processor has.
  blasThreshold @6 :Int64 = 32768;
  # Matrix products of at least so many multiplications (m * n * k) go to the caller's BLAS, if it has one.
  maxObjectBytes @7 :UInt64 = 67108864;
  # A larger object is refused.
  entry @8 :Text;
  # Of CUDA C++: its kernel, as C++ calls it. `argumentTypes`, `processor`, `features` and `blasThreshold` mean nothing
  # there: extents stay open, and the command line says which GPU it is for.

  enum Want {
    signature @0;
    # Only parsed and verified: milliseconds.
    object @1;
  }
}

struct CompileAnswer {
  compiler @0 :Text;
  # Which compiler this is: its own version and LLVM's. Another text may mean another object for the same request.
  processor @1 :Text;
  features @2 :Text;
  # What was compiled for, or would be: with `compiler`, the part of a cache's key that depends on the machine.
  # `lockstep-compiler --describe` prints the three, a line each.

  union {
    failure @3 :Failure;
    success @4 :Success;
  }

  struct Failure {
    code @0 :UInt16;
    # absl::StatusCode: invalidArgument the fragment is wrong, or does not fit `argumentTypes`; unimplemented a dialect,
    # operation or type that is not supported; resourceExhausted a limit; internal a defect of the compiler.
    message @1 :Text;
    # Whole sentences without the place, which is in the fields below. Of several errors the first.
    line @2 :UInt32;
    column @3 :UInt32;
    # From 1; 0: there is no such place (bytecode without locations).
    operation @4 :Text;
    # "linalg.generic"; empty where the error is about no operation.
  }

  struct Success {
    function @0 :Text;
    # The fragment's name for its function.
    arguments @1 :List(FragmentArgument);
    # Those that the caller passes. What the function takes with the attributes lockstep.offset and
    # lockstep.global_size is not among them: it comes from other arguments' descriptors.
    results @2 :List(FragmentResult);
    object @3 :Data;
    # A shared object with the entries that runtime/fragment/abi.h names. It needs the C library, its libm and libmvec,
    # and nothing else. Empty unless it was wanted. Of CUDA C++: an image for cuModuleLoadData().
    abiVersion @4 :UInt32;
    # LOCKSTEP_FRAGMENT_ABI_VERSION of what it was compiled for.
    entry @5 :Text;
    # Of CUDA C++: what the kernel is called in the image.
  }
}
