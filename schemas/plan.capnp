@0xe134d9341f0be1a9;
# How tensors lie on the workers.

using Cxx = import "/capnp/c++.capnp";
using V = import "values.capnp";
$Cxx.namespace("lockstep::wire");

struct Mesh {
  # Ranks in an n-dimensional array, in row-major order.
  axes @0 :List(Axis);
  ranks @1 :List(Int32);
  # Distinct; as many as the axes' sizes multiply to.

  struct Axis {
    name @0 :Text;
    size @1 :UInt32;
  }
}

struct Placement {
  # What one axis of a mesh does with a tensor.
  union {
    replicate @0 :Void;
    # Each coordinate has all of it.
    shard @1 :UInt32;
    # This dimension is dealt out to the coordinates, as evenly as possible; where several axes shard one
    # dimension, a later axis deals out what the ones before it left to a coordinate.
    partial @2 :UInt8;
    # Each coordinate has values that become the tensor's by this reduction, a number of ReduceOp.
  }
}

struct Layout {
  shape @0 :List(Int64);
  # Of the whole tensor.
  dtype @1 :V.DType;
  mesh @2 :Mesh;
  placements @3 :List(Placement);
  # One for each axis.
}

struct LayoutChange {
  # Of one tensor: shape and dtype of both are the same.
  from @0 :Layout;
  to @1 :Layout;
}
