#include "runtime/module/ffi_stack.h"

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string_view>
#include <vector>

namespace lockstep::module {
namespace {

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

bool Mentions(const std::string& frame, std::string_view what) {
  return frame.find(what) != std::string::npos;
}

// What a frame's function is called, without its result, parameters and template arguments.
std::string FunctionOf(const std::string& frame) {
  constexpr std::string_view kIn = ", in ";
  const size_t in = frame.find(kIn);
  if (in == std::string::npos) return "";
  std::string name;
  int depth = 0;
  for (const char c : frame.substr(in + kIn.size())) {
    if (c == '<') ++depth;
    if (depth == 0) {
      if (c == '(') break;
      if (c == ' ') {
        name.clear();
      } else {
        name += c;
      }
    }
    if (c == '>') --depth;
  }
  return name;
}

// Optimised code has none of them: they are inline.
bool IsOfTheKit(const std::string& frame) {
  return Mentions(frame, "runtime/module/kit/") || FunctionOf(frame).starts_with("lockstep::ffi::");
}

}  // namespace

std::string OwnFrames(const std::string& stack, const std::string& here) {
  std::vector<std::string> frames = LinesOf(stack);
  const size_t all = frames.size();
  const std::vector<std::string> callers = LinesOf(here);
  const auto ends = std::mismatch(frames.rbegin(), frames.rend(), callers.rbegin(), callers.rend());
  const auto common = static_cast<size_t>(ends.first - frames.rbegin());
  if (common > 0) {
    // The caller itself is at another line there, or has no name, only an address.
    constexpr size_t kTaker = 1;
    const size_t own = callers.size() - common;
    const size_t differing = own > kTaker ? own - kTaker : 0;
    frames.resize(frames.size() - std::min(frames.size(), common + differing));
  }
  const auto allocation = std::find_if(frames.begin(), frames.end(), [](const std::string& frame) {
    return Mentions(frame, ", in TVMFFIEnvTensorAlloc");
  });
  if (allocation != frames.end()) frames.erase(frames.begin(), allocation + 1);
  std::erase_if(frames, IsOfTheKit);
  if (frames.size() == all) return stack;
  std::string text;
  for (const std::string& frame : frames) text += frame + "\n";
  return text;
}

}  // namespace lockstep::module
