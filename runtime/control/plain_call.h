// Calls with plain arguments, written, checked and read word by word.
//
// Almost all commands are such calls. Cap'n Proto can build and read messages of any kind; for
// these that takes most of the time of encoding (105 instead of 32 ns) and of executing them (304
// instead of 124 ns: docs/performance.md). What is written here every reader of Cap'n Proto reads:
// one segment, and of the command the fields that a call has, as if the schema had no more
// (https://capnproto.org/encoding.html). What is found to be just that may be read without looking
// at bounds.
#pragma once

#include <capnp/common.h>
#include <capnp/message.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "absl/types/span.h"
#include "runtime/base/dtype.h"
#include "runtime/base/ids.h"
#include "runtime/base/shape.h"
#include "schemas/control.capnp.h"
#include "schemas/values.capnp.h"

namespace lockstep::control {

// Where things are in a message, in words, and how one thing points to another.
namespace plain_call {

static_assert(std::endian::native == std::endian::little, "words are written as they are");

// The table of segments, the pointer to the root, and of the root what a call needs.
inline constexpr size_t kTable = 0;
inline constexpr size_t kRoot = 1;
inline constexpr size_t kKind = 2;
inline constexpr size_t kFunction = 3;
inline constexpr size_t kResult = 4;
inline constexpr size_t kArguments = 5;  // a pointer; null where there are none
inline constexpr size_t kHeadWords = 6;
inline constexpr size_t kDataWords = 3;
inline constexpr size_t kPointers = 1;

// An argument: its kind and small values, a value of 8 bytes, a pointer.
inline constexpr size_t kValueDataWords = 2;
inline constexpr size_t kValuePointers = 1;
inline constexpr size_t kValueWords = kValueDataWords + kValuePointers;

enum class ElementSize : uint8_t { kByte = 2, kEightBytes = 5, kStruct = 7 };

// To a struct that follows after `offset` words.
constexpr uint64_t StructPointer(uint64_t offset, uint64_t data_words, uint64_t pointers) {
  return offset << 2 | data_words << 32 | pointers << 48;
}
// To a list that follows after `offset` words. `size`: elements; of structs, the words of all.
constexpr uint64_t ListPointer(uint64_t offset, ElementSize element, uint64_t size) {
  return 1 | offset << 2 | static_cast<uint64_t>(element) << 32 | size << 35;
}
// How many arguments there are, by the word where their list begins.
constexpr size_t ListedArguments(uint64_t word) { return word >> 2 & 0x3fffffff; }
// Of the other fields in this word, 0 stands for their defaults: every rank executes it.
inline constexpr uint64_t kIsCall = uint64_t{wire::Command::CALL} << 32;

}  // namespace plain_call

// Writes one call. All of its words are written: they may hold anything before.
//
// Threads: one at a time.
class PlainCallWriter {
 public:
  // Calls with more arguments are left to Cap'n Proto.
  static constexpr size_t kMostArguments = 1000;

  // How many words a call takes. `payload_words`: its texts and shapes.
  static constexpr size_t Words(size_t arguments, size_t payload_words) {
    const size_t list = arguments == 0 ? 0 : 1 + arguments * plain_call::kValueWords;
    return plain_call::kHeadWords + list + payload_words;
  }
  static constexpr size_t TextWords(size_t bytes) { return bytes / sizeof(uint64_t) + 1; }
  static constexpr size_t ShapeWords(int dims) { return static_cast<size_t>(dims); }

  // At `words`, of which there are so many as Words() says. Each argument is then added, in order.
  PlainCallWriter(uint64_t* words, size_t count, RegisterId function, RegisterId result,
                  size_t arguments) {
    using namespace plain_call;
    words[kTable] = uint64_t{count - 1} << 32;
    words[kRoot] = StructPointer(0, kDataWords, kPointers);
    words[kKind] = kIsCall;
    words[kFunction] = function.Packed();
    words[kResult] = result.Packed();
    next_ = payload_ = words + kHeadWords;
    words[kArguments] = 0;
    if (arguments == 0) return;
    words[kArguments] = ListPointer(0, ElementSize::kStruct, arguments * kValueWords);
    // Where the list begins: what one element is, and how many there are.
    *next_++ = StructPointer(arguments, kValueDataWords, kValuePointers);
    payload_ = next_ + arguments * kValueWords;
  }

  void AddNone() { Add(wire::Value::NONE, 0, 0); }
  void AddBool(bool value) { Add(uint64_t{wire::Value::BOOL} | uint64_t{value} << 16, 0, 0); }
  void AddInt64(int64_t value) { Add(wire::Value::INT64, static_cast<uint64_t>(value), 0); }
  void AddFloat64(double value) { Add(wire::Value::FLOAT64, std::bit_cast<uint64_t>(value), 0); }
  void AddDType(DType value) { Add(wire::Value::DTYPE, static_cast<uint64_t>(value), 0); }
  void AddRegister(RegisterId value) { Add(wire::Value::REGISTER, value.Packed(), 0); }
  void AddText(std::string_view text) {
    const size_t words = TextWords(text.size());
    Add(wire::Value::TEXT, 0, PointerToPayload(plain_call::ElementSize::kByte, text.size() + 1));
    payload_[words - 1] = 0;  // also the zero at its end
    if (!text.empty()) std::memcpy(payload_, text.data(), text.size());
    payload_ += words;
  }
  void AddShape(const Shape& shape) {
    const auto dims = static_cast<size_t>(shape.ndim());
    Add(wire::Value::SHAPE, 0, PointerToPayload(plain_call::ElementSize::kEightBytes, dims));
    for (const int64_t extent : shape.dims()) *payload_++ = static_cast<uint64_t>(extent);
  }

 private:
  void Add(uint64_t kind, uint64_t value, uint64_t pointer) {
    next_[0] = kind;
    next_[1] = value;
    next_[2] = pointer;
    next_ += plain_call::kValueWords;
  }
  // Offsets count from the word after the pointer.
  uint64_t PointerToPayload(plain_call::ElementSize element, size_t size) const {
    const auto offset = static_cast<uint64_t>(payload_ - (next_ + plain_call::kValueWords));
    return plain_call::ListPointer(offset, element, size);
  }

  uint64_t* next_;     // argument
  uint64_t* payload_;  // of the next one that has some
};

// How many of `words` are one call as PlainCallWriter writes them, from the first on; 0 if they are
// something else, or could be. Then every pointer leads to what it should, inside of these words,
// and no two to the same: PlainCall may read them.
size_t FindPlainCall(kj::ArrayPtr<const capnp::word> words);

// One argument of a PlainCall. What it has is asked for as its kind says.
class PlainArgument {
 public:
  explicit PlainArgument(const uint64_t* words) : words_(words) {}

  // NONE, BOOL, INT64, FLOAT64, DTYPE, REGISTER, TEXT or SHAPE.
  wire::Value::Which kind() const { return static_cast<wire::Value::Which>(words_[0] & 0xffff); }
  bool GetBool() const { return (words_[0] >> 16 & 1) != 0; }
  int64_t GetInt64() const { return static_cast<int64_t>(words_[1]); }
  double GetFloat64() const { return std::bit_cast<double>(words_[1]); }
  wire::DType GetDType() const { return static_cast<wire::DType>(words_[1] & 0xffff); }
  RegisterId GetRegister() const { return RegisterId::FromPacked(words_[1]); }
  std::string_view GetText() const {
    return {reinterpret_cast<const char*>(payload()), payload_size() - 1};  // the zero at its end
  }
  absl::Span<const int64_t> GetShape() const {
    return {reinterpret_cast<const int64_t*>(payload()), payload_size()};
  }

 private:
  uint64_t pointer() const { return words_[plain_call::kValueDataWords]; }
  const uint64_t* payload() const {
    return words_ + plain_call::kValueWords + (pointer() >> 2 & 0x3fffffff);
  }
  size_t payload_size() const { return pointer() >> 35; }

  const uint64_t* words_;
};

// Reads what FindPlainCall() has found, where it is, without looking at bounds.
//
// Ownership: the words are borrowed.
class PlainCall {
 public:
  explicit PlainCall(const capnp::word* words) : words_(reinterpret_cast<const uint64_t*>(words)) {}

  RegisterId function() const { return RegisterId::FromPacked(words_[plain_call::kFunction]); }
  RegisterId result() const { return RegisterId::FromPacked(words_[plain_call::kResult]); }

  class Arguments {
   public:
    class Iterator {
     public:
      explicit Iterator(const uint64_t* words) : words_(words) {}
      PlainArgument operator*() const { return PlainArgument(words_); }
      Iterator& operator++() {
        words_ += plain_call::kValueWords;
        return *this;
      }
      bool operator==(const Iterator&) const = default;

     private:
      const uint64_t* words_;
    };

    Arguments(const uint64_t* words, size_t size) : words_(words), size_(size) {}
    size_t size() const { return size_; }
    Iterator begin() const { return Iterator(words_); }
    Iterator end() const { return Iterator(words_ + size_ * plain_call::kValueWords); }

   private:
    const uint64_t* words_;
    size_t size_;
  };
  Arguments arguments() const {
    const uint64_t* const list = words_ + plain_call::kHeadWords;
    if (words_[plain_call::kArguments] == 0) return {list, 0};
    return {list + 1, plain_call::ListedArguments(*list)};
  }

  // The same call for code that reads Cap'n Proto.
  wire::Command::Reader AsCommand() const {
    return capnp::readMessageUnchecked<wire::Command>(
        reinterpret_cast<const capnp::word*>(words_ + plain_call::kRoot));
  }

 private:
  const uint64_t* words_;
};

}  // namespace lockstep::control
