// A setting: one row of the table that a service's configuration is made of.
//
// The rows say everything once: `lockstep config validate`, the tables in docs/configuration.md,
// the checks of files and of --set, and the files that are written for child processes all come
// from them. A row is bound to the field of an options object that it stores into; what that field
// held when the row was made is the default.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/quantity.h"
#include "runtime/base/status.h"
#include "services/config/yaml.h"

namespace lockstep::config {

struct Setting {
  std::string key;       // "heartbeat_interval"; in a section "controller.heartbeat_interval"
  std::string type;      // "duration", "size", "integer", "text", "endpoint", "list of paths"
  std::string fallback;  // the default, as YAML
  std::string allowed;   // "10ms to 1min"
  std::string doc;       // one sentence
  bool required = false;
  // Not documented and never written: the key exists only to be refused with a good reason.
  bool refused = false;
  // The row says what to do with a secret key; all others have no place for one.
  bool takes_secrets = false;

  // Checks a value and stores it. The error says what is wrong and what is allowed; the caller adds
  // where the value was and its key.
  std::function<Status(const RawValue&)> store;
  // What the field holds now, as YAML.
  std::function<std::string()> show;
};

using Settings = std::vector<Setting>;

// The fields are borrowed: they outlive the row.
Setting Text(std::string key, std::string& field, std::string doc);
Setting Choice(std::string key, std::string& field, std::initializer_list<std::string_view> allowed,
               std::string doc);
// Lower-case letters, digits, '-', '_' and '.', at most 63: good as a part of file names.
Setting Name(std::string key, std::string& field, std::string doc);
Setting Integer(std::string key, int& field, int min, int max, std::string doc);
Setting Count(std::string key, size_t& field, size_t min, size_t max, std::string doc);
Setting Size(std::string key, size_t& field, size_t min, size_t max, std::string doc);
// A program and its arguments. A program with a '/' that is relative is made absolute, as above.
Setting Command(std::string key, std::vector<std::string>& field, std::string doc);
// A text that `check` accepts; `allowed` says what that is.
Setting Checked(std::string key, std::string type, std::string allowed, std::string& field,
                std::string doc, std::function<Status(const std::string&)> check);
// Relative paths are made absolute, from the file's directory or, for --set, the working directory.
Setting PathList(std::string key, std::vector<std::string>& field, std::string doc);
// A list of texts, each of which `check` accepts.
Setting TextList(std::string key, std::vector<std::string>& field, std::string allowed,
                 std::string doc, std::function<Status(const std::string&)> check);
// A file with a secret key; the key itself (takes_secrets) only where no other user sees it
// (RawValue::is_private).
Setting SecretKeyFile(std::string key, std::string& field, std::string doc);
// A public key, or a file of such keys.
Setting PublicKeys(std::string key, std::string& field, std::string doc);
// A file. A relative path is made absolute, as above.
Setting FilePath(std::string key, std::string& field, std::string doc,
                 std::string allowed = "a file, such as /etc/lockstep/allowed_keys");
// See CheckEndpoint() and CheckHttpEndpoint().
Setting Endpoint(std::string key, std::string& field, std::string doc);
Setting HttpEndpoint(std::string key, std::string& field, std::string doc);

// A duration of any unit, through microseconds.
Setting MicrosecondSetting(std::string key, std::function<void(std::chrono::microseconds)> set,
                           std::function<std::chrono::microseconds()> get,
                           std::chrono::microseconds granule, std::chrono::microseconds min,
                           std::chrono::microseconds max, std::string doc);
template <typename Unit>
Setting Duration(std::string key, Unit& field, std::chrono::microseconds min,
                 std::chrono::microseconds max, std::string doc) {
  return MicrosecondSetting(
      std::move(key),
      [&field](std::chrono::microseconds value) {
        field = std::chrono::duration_cast<Unit>(value);
      },
      [&field] { return std::chrono::duration_cast<std::chrono::microseconds>(field); }, Unit(1),
      min, max, std::move(doc));
}

// A key that is documented here, and read elsewhere.
Setting Documented(std::string key, std::string type, std::string fallback, std::string allowed,
                   std::string doc);

// A key that people will try and that another one decides.
Setting Refused(std::string key, std::string reason);

// The row itself, with a value that must be given.
Setting Required(Setting setting);
// `settings` with "`section`." in front of their keys, for appending to an outer table.
Settings Section(std::string_view section, Settings settings);

}  // namespace lockstep::config
