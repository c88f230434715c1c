#include "services/worker/join/rank_source.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <vector>

#include "runtime/collective/mpi/launcher.h"

namespace lockstep::worker {
namespace {

StatusOr<int> Number(const std::string& text, const std::string& what) {
  int number = -1;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end || number < 0) {
    return InvalidArgument("there is no rank in ", what, " \"", text, "\"");
  }
  return number;
}

StatusOr<int> OrdinalOf(const std::string& host_name) {
  const size_t dot = host_name.find('.');
  const std::string name = host_name.substr(0, dot);
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  const StatusOr<int> ordinal = Number(name.substr(digits), "the host's name");
  if (ordinal.ok()) return ordinal;
  return InvalidArgument("the host's name \"", host_name,
                         "\" does not end with a number, from which the rank is to be taken");
}

StatusOr<int> FirstOf(const std::vector<const char*>& names, const Surroundings& surroundings) {
  std::string list;
  for (const char* name : names) {
    const char* const value = surroundings.variable(name);
    if (value != nullptr) return Number(value, std::string("$") + name);
    list += (list.empty() ? "$" : ", $") + std::string(name);
  }
  return InvalidArgument("the rank is to be taken from ", list, ", which is not set");
}

}  // namespace

Surroundings ThisProcess() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return {name, [](const char* variable) -> const char* { return std::getenv(variable); }};
}

StatusOr<int> ChooseRank(const WorkerOptions& options, const Surroundings& surroundings) {
  if (options.rank_from.empty()) {
    return options.rank >= 0 ? options.rank : -1 - options.rank_offset;
  }
  if (options.rank >= 0) {
    return InvalidArgument("rank ", options.rank, " is given, and rank_from: ", options.rank_from,
                           " as well; one of the two decides");
  }
  StatusOr<int> rank = InvalidArgument("rank_from: \"", options.rank_from, "\" is not known");
  if (options.rank_from == "hostname") rank = OrdinalOf(surroundings.host_name);
  if (options.rank_from == "slurm") rank = FirstOf({"SLURM_PROCID"}, surroundings);
  if (options.rank_from == "mpi") {
    rank = FirstOf(collective::mpi::RankVariables(), surroundings);
  }
  if (rank.ok()) *rank += options.rank_offset;
  return rank;
}

}  // namespace lockstep::worker
