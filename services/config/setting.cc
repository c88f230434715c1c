#include "services/config/setting.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "runtime/control/keys/key.h"
#include "services/config/endpoint.h"
#include "services/config/yaml.h"

namespace lockstep::config {
namespace {

// The one item of a plain value.
StatusOr<std::string> Scalar(const RawValue& value) {
  switch (value.form) {
    case RawValue::Form::kScalar:
      return value.items.front();
    case RawValue::Form::kNothing:
      return InvalidArgument("has no value");
    case RawValue::Form::kList:
      break;
  }
  return InvalidArgument(value.Text(), " is a list, expected one value");
}

StatusOr<std::string> AbsolutePath(const RawValue& value) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, Scalar(value));
  if (text.empty()) return InvalidArgument("\"\" is no file");
  return (std::filesystem::path(value.directory) / text).lexically_normal().string();
}

Status OutOfBounds(const RawValue& value) {
  return InvalidArgument("\"", value.Text(), "\" is out of bounds");
}

std::string YamlList(const std::vector<std::string>& items) {
  std::string list;
  for (const std::string& item : items) list += (list.empty() ? "" : ", ") + YamlScalar(item);
  return "[" + list + "]";
}

// Completes a row: the default is what `show` prints now, and a value that `store` refuses is
// refused with what is allowed.
Setting Row(std::string key, std::string type, std::string allowed, std::string doc,
            std::function<Status(const RawValue&)> store, std::function<std::string()> show) {
  Setting row;
  row.key = std::move(key);
  row.type = std::move(type);
  row.fallback = show();
  row.allowed = allowed;
  row.doc = std::move(doc);
  row.store = [store = std::move(store), allowed = std::move(allowed)](const RawValue& value) {
    const Status status = store(value);
    if (status.ok()) return status;
    return Status(status.code(), Message(status) + "; allowed: " + allowed);
  };
  row.show = std::move(show);
  return row;
}

// A row for a field that holds a whole number of `Field`'s type.
template <typename Field>
Setting IntegerRow(std::string key, Field& field, Field min, Field max, std::string doc) {
  return Row(
      std::move(key), "integer", std::to_string(min) + " to " + std::to_string(max), std::move(doc),
      [&field, min, max](const RawValue& value) {
        LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, Scalar(value));
        LOCKSTEP_ASSIGN_OR_RETURN(const int64_t number, ParseInteger(text));
        if (std::cmp_less(number, min) || std::cmp_greater(number, max)) return OutOfBounds(value);
        field = static_cast<Field>(number);
        return OkStatus();
      },
      [&field] { return std::to_string(field); });
}

bool IsName(std::string_view text) {
  const auto is_alphanumeric = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
  };
  if (text.empty() || text.size() > 63 || !is_alphanumeric(text.front())) return false;
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return is_alphanumeric(c) || c == '-' || c == '_' || c == '.';
  });
}

}  // namespace

Setting Checked(std::string key, std::string type, std::string allowed, std::string& field,
                std::string doc, std::function<Status(const std::string&)> check) {
  return Row(
      std::move(key), std::move(type), std::move(allowed), std::move(doc),
      [&field, check = std::move(check)](const RawValue& value) {
        LOCKSTEP_ASSIGN_OR_RETURN(std::string text, Scalar(value));
        LOCKSTEP_RETURN_IF_ERROR(check(text));
        field = std::move(text);
        return OkStatus();
      },
      [&field] { return YamlScalar(field); });
}

Setting Text(std::string key, std::string& field, std::string doc) {
  return Checked(std::move(key), "text", "any text", field, std::move(doc),
                 [](const std::string&) { return OkStatus(); });
}

Setting Choice(std::string key, std::string& field, std::initializer_list<std::string_view> allowed,
               std::string doc) {
  std::string list;
  for (std::string_view item : allowed) list += (list.empty() ? "" : ", ") + std::string(item);
  return Checked(std::move(key), "text", list, field, std::move(doc),
                 [choices = std::vector<std::string>(allowed.begin(), allowed.end())](
                     const std::string& text) {
                   if (std::find(choices.begin(), choices.end(), text) != choices.end())
                     return OkStatus();
                   return InvalidArgument("\"", text, "\" is not known");
                 });
}

Setting Name(std::string key, std::string& field, std::string doc) {
  return Checked(std::move(key), "name",
                 "a lower-case letter or digit, then up to 62 more, '-', '_' or '.'", field,
                 std::move(doc), [](const std::string& text) {
                   if (IsName(text)) return OkStatus();
                   return InvalidArgument("\"", text, "\" is no name");
                 });
}

Setting Integer(std::string key, int& field, int min, int max, std::string doc) {
  return IntegerRow(std::move(key), field, min, max, std::move(doc));
}

Setting Count(std::string key, size_t& field, size_t min, size_t max, std::string doc) {
  return IntegerRow(std::move(key), field, min, max, std::move(doc));
}

Setting Size(std::string key, size_t& field, size_t min, size_t max, std::string doc) {
  return Row(
      std::move(key), "size", ExactSize(min) + " to " + ExactSize(max), std::move(doc),
      [&field, min, max](const RawValue& value) {
        LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, Scalar(value));
        LOCKSTEP_ASSIGN_OR_RETURN(const uint64_t bytes, ParseSize(text));
        if (bytes < min || bytes > max) return OutOfBounds(value);
        field = bytes;
        return OkStatus();
      },
      [&field] { return ExactSize(field); });
}

Setting PathList(std::string key, std::vector<std::string>& field, std::string doc) {
  return Row(
      std::move(key), "list of paths", "directories, such as [/opt/modules, modules]",
      std::move(doc),
      [&field](const RawValue& value) {
        if (value.form == RawValue::Form::kNothing) return InvalidArgument("has no value");
        std::vector<std::string> paths;
        for (const std::string& item : value.items) {
          if (item.empty()) return InvalidArgument("\"\" is no directory");
          paths.push_back((std::filesystem::path(value.directory) / item).lexically_normal());
        }
        field = std::move(paths);
        return OkStatus();
      },
      [&field] { return YamlList(field); });
}

Setting TextList(std::string key, std::vector<std::string>& field, std::string allowed,
                 std::string doc, std::function<Status(const std::string&)> check) {
  return Row(
      std::move(key), "list of texts", std::move(allowed), std::move(doc),
      [&field, check = std::move(check)](const RawValue& value) {
        if (value.form == RawValue::Form::kNothing) return InvalidArgument("has no value");
        for (const std::string& item : value.items) LOCKSTEP_RETURN_IF_ERROR(check(item));
        field = value.items;
        return OkStatus();
      },
      [&field] { return YamlList(field); });
}

Setting FilePath(std::string key, std::string& field, std::string doc, std::string allowed) {
  return Row(
      std::move(key), "path", std::move(allowed), std::move(doc),
      [&field](const RawValue& value) -> Status {
        LOCKSTEP_ASSIGN_OR_RETURN(field, AbsolutePath(value));
        return OkStatus();
      },
      [&field] { return YamlScalar(field); });
}

Setting SecretKeyFile(std::string key, std::string& field, std::string doc) {
  Setting row = Row(
      std::move(key), "path", "a file that `lockstep keys new` has made", std::move(doc),
      [&field](const RawValue& value) -> Status {
        LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, Scalar(value));
        if (!control::HasSecret(text)) {
          LOCKSTEP_ASSIGN_OR_RETURN(field, AbsolutePath(value));
          return OkStatus();
        }
        if (!value.is_private) {
          return InvalidArgument(
              "a secret key has no place in a configuration, which others may read: write it to a "
              "file of its own (and make a new one, if others have)");
        }
        LOCKSTEP_RETURN_IF_ERROR(control::ParseSecretKey(text).status());
        field = text;
        return OkStatus();
      },
      [&field] { return YamlScalar(field); });
  row.takes_secrets = true;
  return row;
}

Setting PublicKeys(std::string key, std::string& field, std::string doc) {
  Setting row = Row(
      std::move(key), "key or path", "lpk_..., or a file of such keys", std::move(doc),
      [&field](const RawValue& value) -> Status {
        LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, Scalar(value));
        if (text.rfind(control::kPublicPrefix, 0) != 0 && !control::HasSecret(text)) {
          LOCKSTEP_ASSIGN_OR_RETURN(field, AbsolutePath(value));
          return OkStatus();
        }
        LOCKSTEP_RETURN_IF_ERROR(control::ParsePublicKey(text).status());
        field = text;
        return OkStatus();
      },
      [&field] { return YamlScalar(field); });
  // One in 400,000 public keys looks as if there were a secret one in it.
  row.takes_secrets = true;
  return row;
}

Setting Command(std::string key, std::vector<std::string>& field, std::string doc) {
  return Row(
      std::move(key), "list of words", "a program and its arguments, such as [ssh, -p, 2222]",
      std::move(doc),
      [&field](const RawValue& value) {
        std::vector<std::string> words = value.items;
        if (words.empty() || words.front().empty()) return InvalidArgument("names no program");
        if (value.form == RawValue::Form::kScalar &&
            words.front().find_first_of(" \t") != std::string::npos) {
          return InvalidArgument("\"", words.front(), "\" is one word with blanks in it");
        }
        if (words.front().find('/') != std::string::npos) {
          words.front() =
              (std::filesystem::path(value.directory) / words.front()).lexically_normal();
        }
        field = std::move(words);
        return OkStatus();
      },
      [&field] { return YamlList(field); });
}

Setting Endpoint(std::string key, std::string& field, std::string doc) {
  return Checked(std::move(key), "endpoint", "tcp://ADDRESS:PORT, ipc:///PATH, inproc://NAME",
                 field, std::move(doc),
                 [](const std::string& text) { return CheckEndpoint(text); });
}

Setting HttpEndpoint(std::string key, std::string& field, std::string doc) {
  return Checked(std::move(key), "http endpoint", "http://ADDRESS:PORT", field, std::move(doc),
                 [](const std::string& text) { return CheckHttpEndpoint(text); });
}

Setting MicrosecondSetting(std::string key, std::function<void(std::chrono::microseconds)> set,
                           std::function<std::chrono::microseconds()> get,
                           std::chrono::microseconds granule, std::chrono::microseconds min,
                           std::chrono::microseconds max, std::string doc) {
  return Row(
      std::move(key), "duration", ExactDuration(min) + " to " + ExactDuration(max), std::move(doc),
      [set = std::move(set), granule, min, max](const RawValue& value) {
        LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, Scalar(value));
        LOCKSTEP_ASSIGN_OR_RETURN(const std::chrono::microseconds duration, ParseDuration(text));
        if (duration < min || duration > max) return OutOfBounds(value);
        if (duration % granule != std::chrono::microseconds::zero()) {
          return InvalidArgument("\"", text, "\" is not a multiple of ", ExactDuration(granule));
        }
        set(duration);
        return OkStatus();
      },
      [get = std::move(get)] { return ExactDuration(get()); });
}

Setting Documented(std::string key, std::string type, std::string fallback, std::string allowed,
                   std::string doc) {
  Setting row;
  row.key = std::move(key);
  row.type = std::move(type);
  row.fallback = std::move(fallback);
  row.allowed = std::move(allowed);
  row.doc = std::move(doc);
  row.store = [](const RawValue&) { return OkStatus(); };
  row.show = [fallback = row.fallback] { return fallback; };
  return row;
}

Setting Refused(std::string key, std::string reason) {
  Setting row;
  row.key = std::move(key);
  row.refused = true;
  row.store = [reason = std::move(reason)](const RawValue&) { return InvalidArgument(reason); };
  row.show = [] { return std::string(); };
  return row;
}

Setting Required(Setting setting) {
  setting.required = true;
  return setting;
}

Settings Section(std::string_view section, Settings settings) {
  for (Setting& setting : settings) setting.key = std::string(section) + "." + setting.key;
  return settings;
}

}  // namespace lockstep::config
