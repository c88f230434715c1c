#include "runtime/client/chrome_trace.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <system_error>
#include <tuple>

#include "nlohmann/json.hpp"

namespace lockstep {
namespace {

using trace::Event;
using trace::Kind;
using Role = TraceProcess::Role;

// With quotes. Names may be any bytes: what is no UTF-8 in them is replaced by U+FFFD.
std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Nanoseconds as microseconds, exactly.
std::string Micros(int64_t nanos) {
  char text[32];
  std::snprintf(text, sizeof text, "%lld.%03lld", static_cast<long long>(nanos / 1000),
                static_cast<long long>(nanos % 1000));
  return text;
}

const char* CategoryOf(Kind kind) {
  switch (kind) {
    case Kind::kCommand:
      return "command";
    case Kind::kCollective:
      return "collective";
    case Kind::kWait:
      return "wait";
    case Kind::kCopy:
      return "copy";
    case Kind::kBatch:
      return "batch";
    case Kind::kMark:
      return "mark";
  }
  return "";
}

// One event after another, each a line of the file.
class Writer {
 public:
  Writer(const Trace& trace, std::ostream& out) : trace_(trace), out_(out) {
    base_ = std::numeric_limits<int64_t>::max();
    for (const TraceProcess& process : trace.processes) {
      for (const TraceThread& thread : process.threads) {
        for (const Event& event : thread.events) base_ = std::min(base_, event.begin);
      }
    }
    if (base_ == std::numeric_limits<int64_t>::max()) base_ = 0;
  }

  void Write() {
    out_ << "{\"displayTimeUnit\":\"ns\",\n\"otherData\":" << OtherData() << ",\n\"traceEvents\":[";
    for (size_t i = 0; i < trace_.processes.size(); ++i) {
      WriteNames(i);
      const TraceProcess& process = trace_.processes[i];
      for (size_t j = 0; j < process.threads.size(); ++j) {
        for (const Event& event : process.threads[j].events) WriteEvent(Place(i, j), event);
      }
    }
    for (const PeerWait& wait : FindPeerWaits(trace_)) {
      Begin("X") << Place(wait.process, 0) << Time(wait.begin) << Duration(wait.end - wait.begin)
                 << ",\"cat\":\"wait\",\"name\":\"wait for rank " << wait.last << "\"}";
    }
    WriteArrows();
    out_ << "\n]}\n";
  }

 private:
  // Chrome has numbers for processes: small ones, in the order in which they are to be shown.
  static std::string Place(size_t process, size_t thread) {
    return ",\"pid\":" + std::to_string(process + 1) + ",\"tid\":" + std::to_string(thread + 1);
  }
  std::string Time(int64_t nanos) const {
    // What is outside by the clocks' uncertainty has no time before the beginning.
    return ",\"ts\":" + Micros(std::max<int64_t>(nanos - base_, 0));
  }
  static std::string Duration(int64_t nanos) {
    return ",\"dur\":" + Micros(std::max<int64_t>(nanos, 0));
  }

  std::ostream& Begin(const char* phase) {
    out_ << (is_first_ ? "\n" : ",\n") << "{\"ph\":\"" << phase << '"';
    is_first_ = false;
    return out_;
  }

  std::string OtherData() const {
    nlohmann::ordered_json processes = nlohmann::ordered_json::array();
    for (const TraceProcess& process : trace_.processes) {
      processes.push_back({{"name", process.Name()},
                           {"host", process.host},
                           {"pid", process.pid},
                           {"clock_known", process.clock_is_known},
                           {"clock_uncertainty_ns", process.clock_uncertainty.count()},
                           {"lost_events", process.lost()},
                           {"missing", process.missing}});
    }
    const nlohmann::ordered_json data = {
        {"made_by", "lockstep"},
        {"clock", "the controller's; times are since the first event"},
        {"processes", processes}};
    return data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }

  void WriteMetadata(const std::string& place, const char* what, const std::string& argument) {
    Begin("M") << place << ",\"name\":\"" << what << "\",\"args\":{" << argument << "}}";
  }

  void WriteNames(size_t index) {
    const TraceProcess& process = trace_.processes[index];
    const std::string place = Place(index, 0);
    const std::string label =
        process.host.empty() ? "" : " (" + process.host + ":" + std::to_string(process.pid) + ")";
    WriteMetadata(place, "process_name", "\"name\":" + Quoted(process.Name() + label));
    WriteMetadata(place, "process_sort_index", "\"sort_index\":" + std::to_string(index));
    if (!process.clock_is_known) {
      WriteMetadata(place, "process_labels", "\"labels\":\"clock not known\"");
    } else if (process.clock_uncertainty.count() > 0) {
      WriteMetadata(place, "process_labels",
                    "\"labels\":\"clock +-" + Micros(process.clock_uncertainty.count()) + " us\"");
    }
    for (size_t i = 0; i < process.threads.size(); ++i) {
      const TraceThread& thread = process.threads[i];
      WriteMetadata(Place(index, i), "thread_name", "\"name\":" + Quoted(thread.name));
      if (thread.lost == 0) continue;
      const int64_t first = thread.events.empty() ? base_ : thread.events.front().begin;
      WriteNote(Place(index, i), first, std::to_string(thread.lost) + " older events are lost");
    }
    if (!process.missing.empty()) WriteNote(place, base_, "missing: " + process.missing);
  }

  void WriteNote(const std::string& place, int64_t when, const std::string& text) {
    Begin("i") << place << Time(when) << ",\"s\":\"p\",\"cat\":\"note\",\"name\":" << Quoted(text)
               << "}";
  }

  void WriteEvent(const std::string& place, const Event& event) {
    Begin(event.kind == Kind::kMark ? "i" : "X") << place << Time(event.begin);
    if (event.kind == Kind::kMark) {
      out_ << ",\"s\":\"t\"";
    } else {
      out_ << Duration(event.end - event.begin);
    }
    out_ << ",\"cat\":\"" << CategoryOf(event.kind) << "\",\"name\":" << Name(event.name)
         << ",\"args\":{";
    const char* comma = "";
    const auto argument = [&](const char* name, const std::string& value) {
      out_ << comma << '"' << name << "\":" << value;
      comma = ",";
    };
    if (event.session != 0) argument("session", std::to_string(event.session));
    if (event.command != 0) {
      argument(event.kind == Kind::kBatch ? "first_command" : "command",
               std::to_string(event.command));
    }
    // As errors and `lockstep plan explain` count.
    if (event.step != 0) argument("step", std::to_string(event.step - 1));
    if (event.commands != 0) argument("commands", std::to_string(event.commands));
    if (event.bytes != 0) argument("bytes", std::to_string(event.bytes));
    if (event.kind == Kind::kCollective && event.ranks != 0) {
      argument("backend", Name(event.backend));
      argument("ranks", std::to_string(event.ranks));
      argument("first_rank", std::to_string(event.first));
    }
    if (event.code != 0) {
      argument("error", Quoted(absl::StatusCodeToString(static_cast<StatusCode>(event.code))));
    }
    if (event.unfinished) argument("unfinished", "true");
    out_ << "}}";
  }

  // Few different ones, which come again and again.
  const std::string& Name(const char* name) {
    const auto [found, is_new] = names_.emplace(name, "");
    if (is_new) found->second = Quoted(name);
    return found->second;
  }

  // From the sending of a batch to its first command on each rank.
  void WriteArrows() {
    struct Batch {
      std::string place;
      int64_t when;
    };
    // By session and first command: where it was sent last.
    std::map<std::pair<uint32_t, uint64_t>, Batch> batches;
    uint64_t arrow = 0;
    const auto draw = [&](const Batch& from, const std::string& place, int64_t when) {
      ++arrow;
      Begin("s") << from.place << Time(from.when)
                 << ",\"cat\":\"batch\",\"name\":\"batch\",\"id\":" << arrow << "}";
      Begin("f") << place << Time(when)
                 << ",\"bp\":\"e\",\"cat\":\"batch\",\"name\":\"batch\",\"id\":" << arrow << "}";
    };
    for (const Role role : {Role::kClient, Role::kController, Role::kWorker}) {
      for (size_t i = 0; i < trace_.processes.size(); ++i) {
        const TraceProcess& process = trace_.processes[i];
        if (process.role != role) continue;
        for (size_t j = 0; j < process.threads.size(); ++j) {
          for (const Event& event : process.threads[j].events) {
            if (event.session == 0 || event.command == 0 || event.kind == Kind::kMark) continue;
            const std::pair key(event.session, event.command);
            const auto found = batches.find(key);
            if (role == Role::kWorker && found != batches.end()) {
              draw(found->second, Place(i, j), event.begin);
            } else if (event.kind == Kind::kBatch) {
              if (found != batches.end()) draw(found->second, Place(i, j), event.begin);
              batches[key] = {Place(i, j), event.begin};
            }
          }
        }
      }
    }
  }

  const Trace& trace_;
  std::ostream& out_;
  int64_t base_ = 0;
  bool is_first_ = true;
  std::map<std::string, std::string> names_;
};

}  // namespace

void WriteChromeTrace(const Trace& trace, std::ostream& out) { Writer(trace, out).Write(); }

namespace {

namespace fs = std::filesystem;

Status CannotWrite(const std::string& path) {
  return Unavailable("cannot write ", path, ": ", std::strerror(errno));
}

// Where it is written first. What is there and is no file (a pipe, /dev/stdout) is written itself.
std::string DraftOf(const fs::path& target) {
  std::error_code error;
  if (fs::exists(target, error) && !fs::is_regular_file(target, error)) return target;
  return target.string() + "." + std::to_string(getpid()) + ".tmp";
}

// Without symbolic links: they stay what they are.
fs::path TargetOf(const std::string& path) {
  std::error_code error;
  const fs::path target = fs::weakly_canonical(path, error);
  return error ? fs::path(path) : target;
}

}  // namespace

Status CheckChromeTraceFile(const std::string& path) {
  const fs::path target = TargetOf(path);
  if (fs::is_directory(target))
    return InvalidArgument("cannot write ", path, ": it is a directory");
  const std::string draft = DraftOf(target);
  if (draft == target) return OkStatus();
  if (!std::ofstream(draft, std::ios::binary | std::ios::trunc)) return CannotWrite(path);
  std::remove(draft.c_str());
  return OkStatus();
}

Status WriteChromeTrace(const Trace& trace, const std::string& path) {
  const fs::path target = TargetOf(path);
  const std::string draft = DraftOf(target);
  const auto failed = [&] {
    const Status status = CannotWrite(path);
    if (draft != target) std::remove(draft.c_str());
    return status;
  };
  {
    std::ofstream out(draft, std::ios::binary | std::ios::trunc);
    if (!out) return failed();
    WriteChromeTrace(trace, out);
    out.close();
    if (!out) return failed();
  }
  if (draft != target && std::rename(draft.c_str(), target.c_str()) != 0) return failed();
  return OkStatus();
}

}  // namespace lockstep
