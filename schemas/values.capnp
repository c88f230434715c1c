@0xb1f0a6c7d4e29831;
# Values that can cross the wire: the arguments and results of calls.
#
# Never code, never pointers, never pickles. A reader bounds depth and size before it looks inside.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("lockstep::wire");

enum DType {
  # Element types. The order is that of lockstep::DType in runtime/base/dtype.h, which both sides
  # check at compile time. Appended to, never renumbered.
  bool @0;
  int8 @1;
  uint8 @2;
  int16 @3;
  uint16 @4;
  int32 @5;
  uint32 @6;
  int64 @7;
  uint64 @8;
  float16 @9;
  bfloat16 @10;
  float32 @11;
  float64 @12;
  float8E4m3 @13;
  float8E5m2 @14;
}

struct HostTensor {
  # A small dense tensor by value: row-major, little-endian. Larger ones take the bulk path.
  dtype @0 :DType;
  shape @1 :List(Int64);
  # Extents; none is negative.
  data @2 :Data;
  # Exactly product(shape) * size(dtype) bytes.
}

struct Value {
  union {
    none @0 :Void;
    bool @1 :Bool;
    int64 @2 :Int64;
    float64 @3 :Float64;
    text @4 :Text;
    # UTF-8, without a terminating zero inside.
    bytes @5 :Data;
    dtype @6 :DType;
    device :group {
      type @7 :UInt8;
      # DLPack's DLDeviceType: 1 CPU, 2 CUDA.
      index @8 :Int32;
    }
    shape @9 :List(Int64);
    register @10 :UInt64;
    # A DRef: (generation << 32 | index) of a register of the SAME session. Valid until a `release`
    # names it. Never in a reply.
    tensor @11 :HostTensor;
    list @12 :List(Value);
    map @13 :List(Entry);
    # Keys are unique; order means nothing.
    object @14 :Text;
    # Only in replies: something that stays on its worker (a function, a module, an opaque object),
    # by its description.
  }

  struct Entry {
    key @0 :Text;
    value @1 :Value;
  }
}
