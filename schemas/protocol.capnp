@0x9d3f5be17a2c4806;
# What every message begins with, and the answer to a message that a socket does not take.
#
# The first frame of every message is a tag of 8 bytes, and after it a Cap'n Proto message in the standard
# stream framing. The tag says what the message is before any byte of it is interpreted: without it, the
# messages of one protocol are often readable as those of another.
#
#   bytes 0 to 2  "LKS"
#   byte 3        protocol: 1 ClientMessage (a client to the controller), 2 ControllerMessage (back),
#                 3 WorkerMessage (a worker to the controller), 4 Envelope (back), 5 LivenessMessage (both
#                 directions), 6 BulkRequest (a client to worker-0), 7 BulkReply (back), 8 WrongProtocol
#   byte 4        the newest protocol version (membership.capnp) that the sender speaks
#   bytes 5 to 7  the sender's release of Lockstep: major, minor, patch; for people
#
# Read as Cap'n Proto's stream framing, the first four bytes would announce at least 5 million segments: a
# process from before there were tags (protocol version 1) reads no tagged message, and the first bytes of its
# messages are no tag. Other frames of a message have no tag.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("lockstep::wire");

struct WrongProtocol {
  # From a socket that listens, to the sender of a message of another protocol. Never answered itself.
  speaker @0 :Text;
  # What listens here, and of which release, for people: "a worker's bulk socket of Lockstep 0.1.0".
  hint @1 :Text;
  # Where to connect instead, as far as it is known here: "the controller's client port is tcp://...".
}
