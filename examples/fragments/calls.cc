#include "examples/fragments/calls.h"

#include <fstream>
#include <sstream>

#include "examples/support/find_file.h"

namespace lockstep::examples::fragments {

StatusOr<Fragment> ReadFragment(const std::string& name) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string path, FindFile("examples/fragments/" + name));
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return Fragment::Mlir(text.str(), name);
}

}  // namespace lockstep::examples::fragments
