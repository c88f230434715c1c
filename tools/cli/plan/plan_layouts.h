// The meshes and layouts of a `plan:` section, by name.
#pragma once

#include <yaml-cpp/yaml.h>

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "runtime/plan/layout.h"
#include "runtime/plan/mesh.h"
#include "tools/cli/plan/plan_context.h"

namespace lockstep::cli::plan_file {

// Ownership: borrows `context`. Threads: one.
class PlanLayouts {
 public:
  // Reads `meshes` and `layouts` of the section, and reports what is wrong with them.
  PlanLayouts(const YAML::Node& plan, PlanContext& context);

  // The layout that `node`, of `at`, names. Null after reporting that there is none.
  const plan::Layout* Find(const YAML::Node& node, const YAML::Node& at,
                           const std::string& title) const;
  // The same of a mesh.
  const plan::Mesh* FindMesh(const YAML::Node& node, const std::string& title) const;
  // Ascending: those of all meshes.
  std::vector<Rank> Ranks() const;

 private:
  std::optional<plan::Mesh> ReadMesh(const YAML::Node& node, const std::string& title);
  std::optional<plan::Layout> ReadLayout(const YAML::Node& node, const std::string& title);

  PlanContext& context_;
  std::map<std::string, plan::Mesh, std::less<>> meshes_;
  std::map<std::string, plan::Layout, std::less<>> layouts_;
};

}  // namespace lockstep::cli::plan_file
