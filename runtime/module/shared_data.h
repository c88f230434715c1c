// Which variables of a shared library the dynamic linker shares with every other library.
#pragma once

#include <string>
#include <vector>

namespace lockstep::module {

// The symbols, as they are mangled, of variables that `file` defines and that exist once in a
// process, whichever libraries define them: g++ marks inline variables, static variables of inline
// functions, and static members of templates so (STB_GNU_UNIQUE). Constants, and the variables of
// the C++ library's own templates, are left out: every version has the same.
//
// Empty if the file cannot be read as an ELF library of 64 bits: dlopen() says why.
std::vector<std::string> SharedData(const std::string& file);

// The name that a programmer knows it by: "cache", "Counter()::count".
std::string NameOfSymbol(const std::string& symbol);

}  // namespace lockstep::module
