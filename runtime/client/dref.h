// DRef: a client's name for one register that exists on every worker.
#pragma once

#include <memory>
#include <utility>

#include "runtime/base/ids.h"
#include "runtime/control/value.h"

namespace lockstep {

namespace client {
class SessionCore;
class RegisterNames;
struct RegisterName;
}  // namespace client

// Copies share the name. When the last copy goes, the name joins a kill list that rides on the
// session's next batch, and the register is freed on all workers: no message of its own.
//
// Threads: as safe as a shared_ptr. Lifetime: may outlive its session; it then names nothing.
class DRef {
 public:
  DRef() = default;
  DRef(const DRef& other);
  DRef(DRef&& other) noexcept : name_(std::exchange(other.name_, nullptr)) {}
  DRef& operator=(DRef other) noexcept {
    std::swap(name_, other.name_);
    return *this;
  }
  ~DRef();

  // True for a default-constructed or moved-from DRef.
  bool IsNull() const { return name_ == nullptr; }
  // The register's id; none for a null DRef.
  RegisterId id() const;
  // The session it belongs to; 0 for a null DRef.
  SessionId session() const;
  // In a list or map that a call takes: the worker puts the register's value there. The Value keeps
  // the register as a copy of the DRef does.
  operator Value() const;  // NOLINT(google-explicit-constructor): lists take DRefs as they are

 private:
  friend class client::RegisterNames;
  friend class client::SessionCore;
  explicit DRef(client::RegisterName* name) : name_(name) {}

  client::RegisterName* name_ = nullptr;
};

}  // namespace lockstep
