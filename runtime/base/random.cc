#include "runtime/base/random.h"

#include <random>

namespace lockstep {

uint64_t RandomNumber() {
  std::random_device random;
  uint64_t number = 0;
  while (number == 0) number = uint64_t{random()} << 32 | random();
  return number;
}

std::string RandomHex(int count) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::random_device random;
  std::string text;
  for (int i = 0; i < count; ++i) {
    const unsigned byte = random() & 0xff;
    text += kDigits[byte >> 4];
    text += kDigits[byte & 0xf];
  }
  return text;
}

}  // namespace lockstep
