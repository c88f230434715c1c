// The files that configure a cluster, a controller or a worker: telling which of them one is,
// checking it, and describing what may be in it.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "services/config/settings.h"

namespace lockstep::local {

// What a file configures, by the keys in it.
enum class FileKind { kCluster, kController, kWorker };
std::string_view Name(FileKind kind);  // "cluster", "controller", "worker"
StatusOr<FileKind> ParseFileKind(std::string_view name);
// kInvalidArgument if it has no key of any kind.
StatusOr<FileKind> GuessFileKind(const std::string& path);

// Loads the file as `kind` and drops the result.
Status ValidateFile(FileKind kind, const std::string& path);

// The table of `kind` for documentation: its rows neither store nor show.
config::Settings Describe(FileKind kind);

}  // namespace lockstep::local
