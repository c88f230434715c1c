@0xd3a6f0417be25c98;
# Fragments as clients, controller and workers speak of them: what is granted to a session, and how it is called.

using Cxx = import "/capnp/c++.capnp";
using F = import "fragment.capnp";
using P = import "plan.capnp";
using V = import "values.capnp";
$Cxx.namespace("lockstep::wire");

enum FragmentKind {
  # The order is that of lockstep::fragment::Kind.
  mlir @0;
  cuda @1;
  function @2;
}

struct FragmentSource {
  kind @0 :FragmentKind;
  name @1 :Text;
  # What messages call it: a file's name.
  entry @2 :Text;
  # The kernel of CUDA source; the function of a module.
  source @3 :Data;
}

struct FragmentKey {
  # A hash of the fragment's kind, source and entry (runtime/fragment/object_key.h), without compiler and machine. It
  # names a fragment among those that were granted to its session, and gives no right to any other.
  high @0 :UInt64;
  low @1 :UInt64;
}

struct NewFragmentCall {
  # One that is sent once, and prepared once.
  fragment @0 :FragmentKey;
  # One that is loaded. While it is still being compiled this is an error: nothing waits for a compiler.
  call @1 :Data;
  # A message whose root is a FragmentCall, in the standard stream framing.
}

struct FragmentSignature {
  function @0 :Text;
  # As the fragment names it.
  arguments @1 :List(F.FragmentArgument);
  results @2 :List(F.FragmentResult);
}

struct FragmentLoaded {
  # A rank's answer to loadFragment. What the client gets are those of all ranks, one message after the other, in the
  # order in which they came.
  signature @0 :FragmentSignature;
  # Of rank 0; null of the others.
  rank @1 :Int32;
  origin @2 :Origin;
  compilingMicros @3 :UInt64;
  # How long the compiler ran, if it did.
  signatureDigest @4 :UInt64;
  # lockstep::fragment::DigestOf() the signature that this rank has, which is that of rank 0.

  enum Origin {
    # The order is that of lockstep::fragment::Origin.
    memory @0;
    disk @1;
    compiler @2;
    module @3;
    # A function of a module, or a built-in one: nothing is compiled.
  }
}

struct FragmentCall {
  # What a call is, but for the registers: which part each worker gets, and what its results are. See
  # runtime/fragment/placed_call.h, whose checks both sides make.
  inputs @0 :List(Input);
  outputs @1 :List(Output);

  struct Input {
    dtype @0 :V.DType;
    shape @1 :List(Int64);
    # Of the whole tensor.
    split @2 :UInt8;
    # A number of lockstep::fragment::Split.
    layout @3 :P.Layout;
    # Of what is taken as it is placed: how it lies. Null: each worker has a tensor of its own, of that shape; or the
    # split says it.
    asItIs @4 :Bool;
    # Whatever each worker has in its register, for a module's function to look at. All else but `holders` counts for
    # nothing then.
    holders @5 :List(Int32);
    # Where each worker has its own, or it is taken as it is: the ranks that have any, ascending; the others have a
    # tensor without elements. Empty: all have one.
  }

  struct Output {
    combine @0 :UInt8;
    # A number of lockstep::fragment::Combine.
    shapeIsGiven @1 :Bool;
    shape @2 :List(Int64);
    # If so: that of the whole tensor, or, of those that each worker keeps, of each.
    dtypeIsGiven @3 :Bool;
    dtype @4 :V.DType;
    # If so: of a module's function, which does not state it.
  }
}
