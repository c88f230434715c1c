#include "runtime/client/controller_answer.h"

#include "runtime/control/error_codec.h"
#include "runtime/control/value_codec.h"

namespace lockstep::client {

Status CheckIsAnswer(wire::ControllerMessage::Reader reader) {
  switch (reader.which()) {
    case wire::ControllerMessage::REFUSED:
      return control::ReadError(reader.getRefused().getError()).ToStatus();
    case wire::ControllerMessage::SHUTDOWN:
      return Unavailable("the cluster is shutting down: ", control::ToString(reader.getShutdown()));
    default:
      return OkStatus();
  }
}

Status UnexpectedAnswer(std::string_view question, wire::ControllerMessage::Reader reader) {
  return Internal("the controller answered ", question, " with message kind ",
                  static_cast<int>(reader.which()));
}

}  // namespace lockstep::client
