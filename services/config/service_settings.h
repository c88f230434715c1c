// What the tables of settings of the controller and of the worker have in common.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "services/config/setting.h"
#include "services/config/settings.h"

namespace lockstep::config {

// Most workers of a cluster.
inline constexpr int kMaxWorkers = 4096;

// `field` is borrowed, as by all rows (setting.h).
Setting MetricsEndpoint(std::string& field);
Setting LogLevel(std::string& field);
Setting LogFormat(std::string& field);
Setting AddressForOthers(const std::string& key, std::string& field, const std::string& doc);
// `plaintext`, which older releases had.
Setting RefusedPlaintext();

// What no single setting can check. A problem is reported where `entries` give one of the settings;
// their keys have `prefix` in front.

// Of two settings that belong together, one alone is a mistake.
void CheckBothOrNone(const std::string& one, const std::string& one_value, const std::string& other,
                     const std::string& other_value, const std::vector<Entry>& entries,
                     const std::string& prefix, Problems& problems);

// Of a service without keys: its `endpoints` (key, value) must not leave this host. `lines`: what
// to add where one does.
void CheckNeedsKeys(const std::vector<std::pair<std::string, std::string>>& endpoints,
                    const std::string& lines, const std::vector<Entry>& entries,
                    Problems& problems);

// `settings` for help and documentation: they neither store nor show, so the options that they were
// made of need not outlive them.
Settings Described(Settings settings);

}  // namespace lockstep::config
