#include "services/local/config_file.h"

#include <algorithm>
#include <array>
#include <vector>

#include "services/config/service_settings.h"
#include "services/config/yaml.h"
#include "services/controller/settings.h"
#include "services/local/cluster_config.h"
#include "services/worker/settings.h"

namespace lockstep::local {
namespace {

constexpr std::array kKinds = {FileKind::kCluster, FileKind::kController, FileKind::kWorker};

}  // namespace

std::string_view Name(FileKind kind) {
  switch (kind) {
    case FileKind::kCluster:
      return "cluster";
    case FileKind::kController:
      return "controller";
    case FileKind::kWorker:
      return "worker";
  }
  return "?";
}

StatusOr<FileKind> ParseFileKind(std::string_view name) {
  for (const FileKind kind : kKinds) {
    if (Name(kind) == name) return kind;
  }
  return InvalidArgument("\"", name, "\" is no kind of file; allowed: cluster, controller, worker");
}

config::Settings Describe(FileKind kind) {
  switch (kind) {
    case FileKind::kCluster: {
      ClusterOptions cluster;
      return config::Described(ClusterSettings(cluster));
    }
    case FileKind::kController:
      return controller::DescribeSettings();
    case FileKind::kWorker:
      return worker::DescribeSettings();
  }
  return {};
}

StatusOr<FileKind> GuessFileKind(const std::string& path) {
  config::Problems problems;
  const std::vector<config::Entry> entries = config::ReadYamlFile(path, problems);
  LOCKSTEP_RETURN_IF_ERROR(problems.ToStatus());
  FileKind best = FileKind::kCluster;
  long most = 0;
  for (const FileKind kind : kKinds) {
    const config::Settings settings = Describe(kind);
    const long known =
        std::count_if(entries.begin(), entries.end(), [&](const config::Entry& entry) {
          if (kind == FileKind::kCluster && IsForHostsOrRanks(entry)) return true;
          return std::any_of(settings.begin(), settings.end(), [&](const config::Setting& setting) {
            return setting.key == entry.key;
          });
        });
    if (known > most) {
      most = known;
      best = kind;
    }
  }
  if (most == 0) {
    return InvalidArgument(path, ": has no key of a cluster, controller or worker file");
  }
  return best;
}

Status ValidateFile(FileKind kind, const std::string& path) {
  const config::Sources sources{path, {}};
  switch (kind) {
    case FileKind::kCluster:
      return LoadCluster(sources).status();
    case FileKind::kController:
      return controller::LoadOptions(sources).status();
    case FileKind::kWorker:
      return worker::LoadOptions(sources).status();
  }
  return Internal("unknown kind of file");
}

}  // namespace lockstep::local
