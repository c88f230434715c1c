#include "services/config/service_settings.h"

#include "services/config/endpoint.h"

namespace lockstep::config {

Setting MetricsEndpoint(std::string& field) {
  return HttpEndpoint("metrics_endpoint", field,
                      "Where /metrics, /startupz, /healthz, /readyz and /idlez are served; without "
                      "one, nowhere.");
}

Setting LogLevel(std::string& field) {
  return Choice("log_level", field, {"debug", "info", "warning", "error"},
                "The least that is logged.");
}

Setting LogFormat(std::string& field) {
  return Choice("log_format", field, {"text", "json"},
                "One line an event, for people or for programs.");
}

Setting AddressForOthers(const std::string& key, std::string& field, const std::string& doc) {
  return Checked(key, "text", "an address or a name, no wildcard", field, doc,
                 [](const std::string& text) -> Status {
                   if (!IsWildcard(text)) return OkStatus();
                   return InvalidArgument(
                       "\"", text, "\" leads nobody here: it stands for all addresses of a host");
                 });
}

Setting RefusedPlaintext() {
  return Refused(
      "plaintext",
      "is no setting any more: messages between hosts are encrypted, with keys (key, allowed_keys, "
      "controller_key); for what ranks exchange, see data_plaintext of workers");
}

void CheckBothOrNone(const std::string& one, const std::string& one_value, const std::string& other,
                     const std::string& other_value, const std::vector<Entry>& entries,
                     const std::string& prefix, Problems& problems) {
  if (one_value.empty() == other_value.empty()) return;
  const std::string& given = one_value.empty() ? other : one;
  const Entry* const entry = LastOf(entries, prefix + given);
  if (entry == nullptr) return;
  problems.Add(entry->where, prefix + given + ": given without " + prefix +
                                 (one_value.empty() ? one : other) + ", which belongs to it");
}

void CheckNeedsKeys(const std::vector<std::pair<std::string, std::string>>& endpoints,
                    const std::string& lines, const std::vector<Entry>& entries,
                    Problems& problems) {
  for (const auto& [key, endpoint] : endpoints) {
    const Entry* const entry = LastOf(entries, key);
    if (StaysOnThisHost(endpoint) || entry == nullptr) continue;
    std::string problem = key;
    problem += ": \"" + endpoint;
    problem +=
        "\" is not on this host: without keys only loopback (127.0.0.0/8, [::1], localhost), "
        "ipc and inproc are allowed; add the lines ";
    problem += lines;
    problem += " (`lockstep keys new` makes keys)";
    problems.Add(entry->where, problem);
  }
}

Settings Described(Settings settings) {
  for (Setting& setting : settings) {
    setting.store = nullptr;
    setting.show = nullptr;
  }
  return settings;
}

}  // namespace lockstep::config
