// What a controller is told at start: by a program, or by a file (settings.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace lockstep::controller {

struct ControllerOptions {
  // Name of the cluster; workers that ask for another are refused.
  std::string cluster = "lockstep";
  // The world's size.
  int workers = 1;

  // Where it listens. ipc:// on one host, tcp:// for many (port * or 0: any free one), inproc://
  // inside one process.
  std::string client_endpoint;
  std::string worker_endpoint;
  std::string liveness_endpoint;
  // Where metrics and health are served: http://ADDRESS:PORT (port * or 0: any free one); empty:
  // nowhere.
  std::string metrics_endpoint;
  // By which clients inside the controller's own process find it; they need no key. Empty: none do.
  std::string inproc_client_endpoint;

  // The address or name by which others reach this controller; empty: where it listens.
  std::string advertise_address;
  // The file with this controller's secret key (or the key itself), and that of the keys that may
  // come in: what tcp endpoints ask for. Both or none; without them only this host is reachable.
  std::string key;
  std::string allowed_keys;

  // What is logged, and how: see log::Configure().
  std::string log_level = "info";
  std::string log_format = "text";

  // Which backend connects the ranks: "auto" (what each pair of them can do), or the name of one.
  std::string communicator = "auto";

  // What is said of how a lost worker is replaced ("{rank}": its rank); empty: nothing.
  std::string replacement_hint = "start lockstep-worker again with rank={rank}";

  // Workers send a heartbeat this often ...
  std::chrono::milliseconds heartbeat_interval{500};
  // ... and are lost after this long without one.
  std::chrono::milliseconds worker_timeout{1'800};
  // A worker that executes one command of its own for longer than this is reported as stuck.
  std::chrono::milliseconds stuck_after{1'000};
  // A session ends when its client is silent for this long.
  std::chrono::milliseconds session_lease{10'000};
  // How long a rank waits for its peers in one collective.
  std::chrono::milliseconds collective_timeout{300'000};
  // Most bytes of a session's batches on their way and not yet executed by the slowest worker.
  size_t flow_window_bytes = size_t{8} << 20;
  // Largest batch that is accepted from a client.
  size_t max_batch_bytes = size_t{256} << 20;
  // Whose fragments are compiled: of "operator"s, also of any "client", or nobody's ("off"). Where
  // keys are asked for; else every client may do what an operator may.
  std::string fragments = "operator";
  // Most sessions of one key's owner, where keys are asked for.
  int max_sessions_per_key = 256;
  // "auto": commands reach workers of this host through shared memory, if there is such memory, and
  // others by socket; "on": it is an error that there is none; "off": all by socket.
  std::string command_rings = "auto";
  // With so many workers or more, commands reach those of other hosts through workers that pass
  // them on; 0: never.
  int relays_from = 0;
  // To how many others the controller, and each worker, then sends them.
  int relay_fan_out = 32;
  // After a message, threads look again at once for this long before they sleep.
  std::chrono::microseconds poll_before_sleep{200};
};

}  // namespace lockstep::controller
