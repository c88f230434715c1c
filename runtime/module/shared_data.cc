#include "runtime/module/shared_data.h"

#include <cxxabi.h>
#include <elf.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>

namespace lockstep::module {
namespace {

// Reads `count` of T at `offset`; none of them if the file does not have all.
template <typename T>
std::vector<T> ReadAt(std::ifstream& in, uint64_t offset, uint64_t count) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 30;  // of a table; a damaged file has any number
  if (count > kMostBytes / sizeof(T)) return {};
  in.clear();
  in.seekg(0, std::ios::end);
  const auto end = static_cast<uint64_t>(in.tellg());
  const uint64_t size = count * sizeof(T);
  if (offset > end || size > end - offset) return {};
  std::vector<T> all(count);
  in.seekg(static_cast<std::streamoff>(offset));
  in.read(reinterpret_cast<char*>(all.data()), static_cast<std::streamsize>(size));
  if (!in) return {};
  return all;
}

// Mangled names say their outermost scope first, behind what they are a part of.
bool IsOfTheLanguage(std::string_view symbol) {
  if (!symbol.starts_with("_Z")) return false;
  symbol.remove_prefix(2);
  if (symbol.starts_with("GV")) symbol.remove_prefix(2);
  while (!symbol.empty() && std::strchr("ZNKVR", symbol.front()) != nullptr) {
    symbol.remove_prefix(1);
  }
  // "St" is std::, "Sa" and others are templates of it.
  return symbol.starts_with('S') || symbol.starts_with("9__gnu_cxx");
}

// True for what is read-only once the library is relocated.
bool IsConstant(const Elf64_Sym& symbol, const std::vector<Elf64_Shdr>& sections,
                const std::vector<Elf64_Phdr>& segments) {
  if (symbol.st_shndx < sections.size() && (sections[symbol.st_shndx].sh_flags & SHF_WRITE) == 0) {
    return true;
  }
  if (ELF64_ST_TYPE(symbol.st_info) == STT_TLS) return false;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_GNU_RELRO && symbol.st_value >= segment.p_vaddr &&
        symbol.st_value - segment.p_vaddr < segment.p_memsz) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::vector<std::string> SharedData(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  const auto header = ReadAt<Elf64_Ehdr>(in, 0, 1);
  if (header.empty() || std::memcmp(header[0].e_ident, ELFMAG, SELFMAG) != 0 ||
      header[0].e_ident[EI_CLASS] != ELFCLASS64) {
    return {};
  }
  const auto sections = ReadAt<Elf64_Shdr>(in, header[0].e_shoff, header[0].e_shnum);
  const auto segments = ReadAt<Elf64_Phdr>(in, header[0].e_phoff, header[0].e_phnum);
  std::vector<std::string> shared;
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_DYNSYM || section.sh_link >= sections.size()) continue;
    const auto symbols =
        ReadAt<Elf64_Sym>(in, section.sh_offset, section.sh_size / sizeof(Elf64_Sym));
    const Elf64_Shdr& strings = sections[section.sh_link];
    const auto names = ReadAt<char>(in, strings.sh_offset, strings.sh_size);
    if (names.empty() || names.back() != '\0') continue;
    for (const Elf64_Sym& symbol : symbols) {
      if (ELF64_ST_BIND(symbol.st_info) != STB_GNU_UNIQUE || symbol.st_shndx == SHN_UNDEF ||
          symbol.st_name >= names.size()) {
        continue;
      }
      const std::string name(names.data() + symbol.st_name);
      if (!IsOfTheLanguage(name) && !IsConstant(symbol, sections, segments)) {
        shared.push_back(name);
      }
    }
  }
  return shared;
}

std::string NameOfSymbol(const std::string& symbol) {
  constexpr std::string_view kGuard = "guard variable for ";
  int failed = 0;
  char* const demangled = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &failed);
  std::string name = failed == 0 ? demangled : symbol;
  std::free(demangled);
  if (name.starts_with(kGuard)) name.erase(0, kGuard.size());
  return name;
}

}  // namespace lockstep::module
