#include "services/local/hosts.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <optional>
#include <utility>

#include "runtime/base/quantity.h"
#include "services/config/endpoint.h"
#include "services/config/service_settings.h"

namespace lockstep::local {
namespace {

constexpr std::string_view kHosts = "hosts";

// Names, addresses, USER@HOST and ssh://USER@HOST:PORT. Nothing that a shell, which the user's ssh
// configuration may hand it to, would take for syntax, and nothing that ssh would take for an
// option.
Status CheckHost(const std::string& host) {
  const auto is_allowed = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           (c != '\0' && std::strchr("._-:@/%+[]", c) != nullptr);
  };
  const std::string name = host.substr(host.rfind('@') + 1);
  if (!name.empty() && std::all_of(host.begin(), host.end(), is_allowed) && host.front() != '-' &&
      name.front() != '-') {
    return OkStatus();
  }
  return InvalidArgument("\"", host, "\" is no host");
}

// It is quoted for the shell there, so nothing in it is expanded.
Status CheckProgram(const std::string& program) {
  if (program.rfind("~/", 0) == 0) {
    return InvalidArgument("\"", program, "\": leave out the ~/: a relative path starts there");
  }
  const bool is_printable = std::all_of(program.begin(), program.end(), [](char c) {
    return static_cast<unsigned char>(c) >= ' ' && c != '\x7f';
  });
  if (!program.empty() && is_printable && program.front() != '-') return OkStatus();
  return InvalidArgument("\"", program, "\" is no program");
}

// The index in "hosts[1]" and "hosts[1].workers".
std::optional<size_t> IndexOf(const std::string& key) {
  const size_t begin = kHosts.size() + 1;
  const size_t end = key.find(']');
  if (key.rfind(std::string(kHosts) + "[", 0) != 0 || end == std::string::npos ||
      (end + 1 < key.size() && key[end + 1] != '.')) {
    return std::nullopt;
  }
  const StatusOr<int64_t> index = ParseInteger(std::string_view(key).substr(begin, end - begin));
  if (!index.ok() || *index < 0) return std::nullopt;
  return static_cast<size_t>(*index);
}

HostItem NewItem(size_t index, const std::string& where) {
  return {std::string(kHosts) + "[" + std::to_string(index) + "]", where, {}};
}

bool IsNumber(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

void AddName(HostItem& item, const config::Entry& entry) {
  item.entries.push_back({item.section + ".host", entry.value, entry.where});
}

}  // namespace

config::Setting RemoteProgram(std::string key, std::string& field, std::string doc) {
  return config::Checked(std::move(key), "text",
                         "a path, or a name in the PATH of commands over ssh", field,
                         std::move(doc), CheckProgram);
}

config::Settings HostSettings(HostOptions& options) {
  return {
      config::Required(config::Checked(
          "host", "text", "a name, an address, USER@HOST or ssh://USER@HOST:PORT", options.host,
          "The host, as ssh takes it; localhost is this one, without ssh.", CheckHost)),
      config::Integer("workers", options.workers, 1, config::kMaxWorkers,
                      "Number of worker processes there."),
      RemoteProgram("program", options.program, "Instead of remote_program."),
  };
}

bool IsForHosts(const config::Entry& entry) {
  return entry.key == kHosts || entry.key.rfind(std::string(kHosts) + "[", 0) == 0 ||
         entry.key.rfind(std::string(kHosts) + ".", 0) == 0;
}

std::vector<HostItem> SplitHosts(const std::vector<config::Entry>& entries,
                                 config::Problems& problems) {
  std::vector<HostItem> items;
  for (const config::Entry& entry : entries) {
    if (entry.key == kHosts) {
      items.clear();
      const auto number =
          std::find_if(entry.value.items.begin(), entry.value.items.end(), IsNumber);
      if (number != entry.value.items.end()) {
        problems.Add(entry.where,
                     "hosts: \"" + *number +
                         "\" is a number; hosts are names, or {host: NAME, workers: N}, as in "
                         "hosts: [localhost, node1] (workers: N alone starts N on this host)");
        continue;
      }
      for (const std::string& name : entry.value.items) {
        items.push_back(NewItem(items.size(), entry.where));
        config::Entry plain = entry;
        plain.value.form = config::RawValue::Form::kScalar;
        plain.value.items = {name};
        AddName(items.back(), plain);
      }
      continue;
    }
    const std::optional<size_t> index = IndexOf(entry.key);
    if (!index.has_value() || *index > items.size()) {
      problems.Add(entry.where, entry.key +
                                    ": hosts is a list, of names or of {host: NAME, "
                                    "workers: N}; this is none of its items");
      continue;
    }
    if (*index == items.size()) items.push_back(NewItem(*index, entry.where));
    HostItem& item = items[*index];
    if (entry.key == item.section) {
      AddName(item, entry);
    } else {
      item.entries.push_back(entry);
    }
  }
  return items;
}

void CheckReachable(const controller::ControllerOptions& controller,
                    const std::vector<config::Entry>& entries, const std::string& where,
                    config::Problems& problems) {
  const auto check = [&](const std::string& name, const std::string& endpoint) {
    const std::string key = "controller." + name;
    const Status reached =
        config::CheckReachedFromOthers(endpoint, !controller.advertise_address.empty());
    if (reached.ok()) return;
    const config::Entry* const entry = config::LastOf(entries, key);
    problems.Add(entry == nullptr ? where : entry->where, key + ": " + Message(reached));
  };
  check("worker_endpoint", controller.worker_endpoint);
  // Without one, it is a free port beside the other.
  if (!controller.liveness_endpoint.empty()) {
    check("liveness_endpoint", controller.liveness_endpoint);
  }
}

}  // namespace lockstep::local
