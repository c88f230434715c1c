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
    shardByExtents :group {
      # The same, where no other axis shards the dimension, by given extents.
      dim @3 :UInt32;
      extents @4 :List(Int64);
      # One for each coordinate, not negative; they add up to the dimension.
    }
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

struct Program {
  # What a plan is made from; see runtime/plan/program.h. All ranks get the same, and each expands its own
  # steps.
  version @0 :UInt32;
  # Of the format, and of what lowering makes of it: another than the worker's own is refused.
  layouts @1 :List(Layout);
  # Those of its values, each once.
  values @2 :List(Value);
  inputs @3 :List(UInt32);
  # Numbers of values, like the next.
  outputs @4 :List(UInt32);
  functions @5 :List(Text);
  ops @6 :List(Op);

  struct Value {
    layout @0 :UInt32;
    # A number in `layouts`.
    name @1 :Text;
    # Of inputs and outputs.
  }

  struct Op {
    where @0 :Text;
    # "train.cc:12"
    union {
      call :group {
        function @1 :UInt32;
        # A number in `functions`.
        arguments @2 :List(Argument);
        result @3 :Int32 = -1;
        # A number of a value, like all that follow; -1: it has none.
        chunks @15 :Chunks;
        # If it is there: the call is to be done in chunks.
      }
      reshard :group {
        source @4 :Int32;
        target @5 :Int32;
      }
      view :group {
        # Each rank's tile is taken for its tile of the target.
        source @6 :Int32;
        target @7 :Int32;
      }
      collective :group {
        # One along an axis of the source's mesh; the target's layout is what it makes of the source's.
        source @8 :Int32;
        target @9 :Int32;
        kind @10 :UInt8;
        # A number of CollectiveKind: allReduce, broadcast, allGather, reduceScatter or allToAll.
        axis @11 :Text;
        dim @12 :Int32;
        # That the target shards: of reduceScatter and allToAll.
        reduction @13 :UInt8;
        # A number of ReduceOp: of allReduce and reduceScatter.
        root @14 :Int32;
        # A coordinate: of broadcast.
      }
    }
  }

  struct Chunks {
    # See runtime/plan/program.h.
    count @0 :Int32;
    argument @1 :Int32;
    # A number in `arguments`.
    along @2 :Int32;
    # Dimensions of the argument's tile, and of the result's.
    resultAlong @3 :Int32;
  }

  struct Argument {
    union {
      bool @0 :Bool;
      int64 @1 :Int64;
      float64 @2 :Float64;
      text @3 :Text;
      dtype @4 :V.DType;
      shape @5 :List(Int64);
      read @6 :Int32;
      write @7 :Int32;
      update @8 :Int32;
    }
  }
}

struct PlanKey {
  # Of a program's bytes; see runtime/plan/plan_key.h.
  high @0 :UInt64;
  low @1 :UInt64;
}

struct Binding {
  # A program, and the registers that it works with.
  union {
    program @0 :Data;
    # A Program in canonical form: one segment, without framing. The workers keep it; see
    # runtime/plan/known_programs.h.
    known @4 :PlanKey;
    # One that this client has bound in this generation of the session, and that the workers still keep.
  }
  functions @1 :List(UInt64);
  # For each of the program's functions, a register that holds it; 0: it is a fragment.
  inputs @2 :List(UInt64);
  # For each input, a register that holds each rank's tile.
  outputs @3 :List(UInt64);
  # For each output, the register that receives each rank's tile.
  fragments @5 :List(BoundFragment);
}

struct BoundFragment {
  # A function of the program is a fragment, one that was granted to the session and is loaded.
  function @0 :UInt32;
  # Its number among the program's functions.
  high @1 :UInt64;
  low @2 :UInt64;
  # As in FragmentKey (fragment_call.capnp), which is made of this file.
}
