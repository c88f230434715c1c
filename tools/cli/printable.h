// Text of others on a terminal: what clients, modules and peers call themselves.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::cli {

// `text` without anything that ends a line, moves a cursor or colours what follows: control
// characters, those of Unicode too, and bytes that are no UTF-8 come as "\n", "\x1b".
std::string Printable(std::string_view text);

// The first `width` characters of printable text, the last of them an ellipsis if some are missing.
std::string Shorten(std::string_view text, int width);

}  // namespace lockstep::cli
