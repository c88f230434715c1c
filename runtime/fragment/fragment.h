// Fragment: a piece of a program that every worker compiles, or finds, for itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace lockstep::fragment {

enum class Kind : uint8_t {
  kMlir = 0,      // one func.func, as text or as bytecode
  kCuda = 1,      // CUDA C++ source, with the name of its kernel
  kFunction = 2,  // a function of a loaded module, by its name
};
// "mlir", "cuda", "function"
std::string_view Name(Kind kind);

// 128 bits of BLAKE2b, of a fragment or of what it is compiled to. Unlike the keys of plans
// (runtime/plan/plan_key.h) it decides alone: an object does not say what it was compiled from.
// Whoever sends fragments must not find two of one key, so the hash is one that withstands that.
struct ObjectKey {
  uint64_t high = 0;
  uint64_t low = 0;

  // 32 hexadecimal digits: a file's name.
  std::string ToString() const;
  bool operator==(const ObjectKey&) const = default;
};

// Immutable. What it holds is bounded, and otherwise unchecked: only a compiler says whether it
// means anything. Threads: any.
class Fragment {
 public:
  // Bounds of what is parsed at all, and of a function's name.
  static constexpr size_t kMaxSourceBytes = size_t{4} << 20;
  static constexpr size_t kMaxNameBytes = 256;

  // `name` is what messages call it: a file's name, say. kInvalidArgument: it is empty or too
  // large, or a name or a text (no bytecode) has a zero byte or is no UTF-8.
  static StatusOr<Fragment> Mlir(std::string source, std::string name = "fragment");
  static StatusOr<Fragment> Cuda(std::string source, std::string kernel,
                                 std::string name = "fragment");
  static StatusOr<Fragment> Function(std::string function);

  Kind kind() const { return kind_; }
  // Of kMlir and kCuda.
  const std::string& source() const { return source_; }
  // The kernel of kCuda, the function of kFunction. MLIR has one function, whose name it says.
  const std::string& entry() const { return entry_; }
  // What messages call it.
  const std::string& name() const { return name_; }
  bool is_bytecode() const;
  // Of kind, source and entry; not of the name, which is for messages. A session names it by that.
  const ObjectKey& key() const { return key_; }

 private:
  Fragment(Kind kind, std::string source, std::string entry, std::string name);

  Kind kind_;
  std::string source_;
  std::string entry_;
  std::string name_;
  ObjectKey key_;
};

}  // namespace lockstep::fragment
