#include "tools/cli/call_arguments.h"

#include <deque>
#include <utility>

namespace lockstep::cli {

StatusOr<DRef> CallWithArguments(Session& session, const DRef& function,
                                 const std::vector<Argument>& arguments,
                                 const std::function<DRef(const std::string&)>& find_register) {
  // The session borrows its arguments; a deque's elements stay where they are.
  std::deque<DRef> registers;
  std::vector<client::Argument> views;
  views.reserve(arguments.size());
  for (const Argument& argument : arguments) {
    if (const Value* value = std::get_if<Value>(&argument)) {
      views.emplace_back(*value);
      continue;
    }
    if (const auto* empty = std::get_if<EmptyTensor>(&argument)) {
      LOCKSTEP_ASSIGN_OR_RETURN(DRef tensor, session.Empty(empty->shape, empty->dtype));
      registers.push_back(std::move(tensor));
    } else {
      registers.push_back(find_register(std::get<RegisterReference>(argument).name));
    }
    views.emplace_back(registers.back());
  }
  return session.CallWith(function, views);
}

}  // namespace lockstep::cli
