// UTF-8 that others have written, and bytes of it that are shown.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

// The length of the well-formed sequence at the front of `text` (RFC 3629); 0: there is none.
size_t Utf8SequenceLength(std::string_view text);

// "\x1b": how a byte is shown that is none to print.
std::string HexEscape(char byte);

}  // namespace lockstep
