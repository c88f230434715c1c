// Functions that print, in the ways that functions do.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "runtime/module/kit/ffi_export.h"

// A line to standard output: the text, and, if there is one, a number.
LOCKSTEP_FFI_EXPORT(print, args, result) {
  const std::string text(args.Text(0, "text"));
  if (args.count() == 1) {
    std::printf("%s\n", text.c_str());
  } else {
    std::printf("%s %lld\n", text.c_str(), static_cast<long long>(args.Int(1, "number")));
  }
}

LOCKSTEP_FFI_EXPORT(print_error, args, result) {
  std::fprintf(stderr, "%s\n", std::string(args.Text(0, "text")).c_str());
}

// Just these bytes, by way of C's buffers; no newline.
LOCKSTEP_FFI_EXPORT(print_raw, args, result) {
  const std::string text(args.Text(0, "text"));
  std::fwrite(text.data(), 1, text.size(), stdout);
}

// What is no text.
LOCKSTEP_FFI_EXPORT(print_binary, args, result) {
  const char bytes[] = {'a', '\0', '\x1b', '\xff', '\n'};
  std::fwrite(bytes, 1, sizeof bytes, stdout);
}

// So many lines of so many bytes with their newlines.
LOCKSTEP_FFI_EXPORT(flood, args, result) {
  const std::string line =
      std::string(static_cast<size_t>(args.Int(1, "line_bytes")) - 1, 'x') + "\n";
  for (int64_t i = args.Int(0, "lines"); i > 0; --i) {
    std::fwrite(line.data(), 1, line.size(), stdout);
  }
}

// Prints, and goes on until a file exists.
LOCKSTEP_FFI_EXPORT(print_and_wait, args, result) {
  std::printf("%s\n", std::string(args.Text(0, "text")).c_str());
  const std::string path(args.Text(1, "path"));
  while (!std::ifstream(path).good()) std::this_thread::yield();
}

// From another process.
LOCKSTEP_FFI_EXPORT(print_from_child, args, result) {
  result.SetInt(std::system(("echo " + std::string(args.Text(0, "word"))).c_str()));
}

LOCKSTEP_FFI_EXPORT(print_and_abort, args, result) {
  std::printf("%s\n", std::string(args.Text(0, "text")).c_str());
  if (args.Int(1, "rank") == args.Int(2, "victim")) std::abort();
}
