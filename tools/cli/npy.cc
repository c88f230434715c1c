#include "tools/cli/npy.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>

#include "runtime/base/files.h"
#include "runtime/base/quantity.h"
#include "runtime/base/random.h"

namespace lockstep::cli {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
// NumPy pads headers to 64 bytes and itself refuses to read more than 10,000.
constexpr size_t kMaxHeaderBytes = size_t{1} << 16;

struct NpyType {
  std::string_view descr;
  DType dtype;
};
constexpr NpyType kTypes[] = {
    {"|b1", DType::kBool},    {"|i1", DType::kInt8},    {"|u1", DType::kUInt8},
    {"<i2", DType::kInt16},   {"<u2", DType::kUInt16},  {"<i4", DType::kInt32},
    {"<u4", DType::kUInt32},  {"<i8", DType::kInt64},   {"<u8", DType::kUInt64},
    {"<f2", DType::kFloat16}, {"<f4", DType::kFloat32}, {"<f8", DType::kFloat64},
};

// What follows `key`, written as "'descr'", in the header: a Python dictionary in one line. "" if
// the key is missing.
std::string_view ValueOf(std::string_view header, std::string_view key) {
  const size_t at = header.find(key);
  if (at == std::string_view::npos) return "";
  std::string_view rest = header.substr(at + key.size());
  const size_t begin = rest.find_first_not_of(": ");
  return begin == std::string_view::npos ? "" : rest.substr(begin);
}

std::optional<Shape> ParseShape(std::string_view text) {
  if (!text.starts_with('(')) return std::nullopt;
  text.remove_prefix(1);
  std::vector<int64_t> dims;
  while (true) {
    const size_t begin = text.find_first_not_of(", ");
    if (begin == std::string_view::npos) return std::nullopt;
    text.remove_prefix(begin);
    if (text.front() == ')') return Shape(dims);
    int64_t dim = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), dim);
    if (error != std::errc()) return std::nullopt;
    dims.push_back(dim);
    text.remove_prefix(static_cast<size_t>(stop - text.data()));
  }
}

StatusOr<HostTensor> ParseHeader(std::string_view header) {
  const std::string_view descr = ValueOf(header, "'descr'");
  HostTensor tensor;
  bool known = false;
  for (const NpyType& type : kTypes) {
    if (descr.size() > 4 && descr.substr(1, 3) == type.descr && descr[4] == descr[0]) {
      tensor.dtype = type.dtype;
      known = true;
    }
  }
  if (!known) {
    return InvalidArgument("unsupported dtype ", descr.substr(0, descr.find(',')),
                           "; expected little-endian bool, int, uint or float elements");
  }
  if (!ValueOf(header, "'fortran_order'").starts_with("False")) {
    return InvalidArgument("the array is in Fortran order; save it with numpy.ascontiguousarray");
  }
  const std::optional<Shape> shape = ParseShape(ValueOf(header, "'shape'"));
  if (!shape.has_value()) return InvalidArgument("the header has no valid shape");
  LOCKSTEP_RETURN_IF_ERROR(shape->Validate(SizeOf(tensor.dtype)));
  tensor.shape = *shape;
  return tensor;
}

StatusOr<HostTensor> ReadFrom(std::istream& file) {
  char prefix[8];
  if (!file.read(prefix, sizeof(prefix)) || std::string_view(prefix, 6) != kMagic) {
    return InvalidArgument("this is no .npy file");
  }
  const int major = static_cast<unsigned char>(prefix[6]);
  if (major < 1 || major > 3) return InvalidArgument("unknown .npy version ", major);
  unsigned char length_bytes[4] = {0, 0, 0, 0};
  if (!file.read(reinterpret_cast<char*>(length_bytes), major == 1 ? 2 : 4)) {
    return InvalidArgument("the file ends inside its header");
  }
  const uint32_t length = length_bytes[0] | uint32_t{length_bytes[1]} << 8 |
                          uint32_t{length_bytes[2]} << 16 | uint32_t{length_bytes[3]} << 24;
  if (length > kMaxHeaderBytes)
    return InvalidArgument("a header of ", length, " bytes, more than the ", kMaxHeaderBytes,
                           " that are read");
  std::string header(length, '\0');
  if (!file.read(header.data(), length)) {
    return InvalidArgument("the file ends inside its header");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(HostTensor tensor, ParseHeader(header));

  // The size is checked before anything of that size is allocated.
  const auto data_begin = file.tellg();
  file.seekg(0, std::ios::end);
  const auto present = static_cast<uint64_t>(file.tellg() - data_begin);
  const auto expected = static_cast<uint64_t>(tensor.shape.NumElements()) * SizeOf(tensor.dtype);
  if (present != expected) {
    return InvalidArgument("a ", tensor.dtype, " array of shape ", tensor.shape, " has ", expected,
                           " bytes of data, but the file has ", present);
  }
  file.seekg(data_begin);
  try {
    tensor.data.resize(expected);
  } catch (const std::exception&) {
    return ResourceExhausted("there is no memory for its ", RoundedSize(expected));
  }
  if (!file.read(tensor.data.data(), static_cast<std::streamsize>(expected))) {
    return InvalidArgument("reading failed");
  }
  return tensor;
}

// The file's bytes before its data, which begin at a multiple of 64.
StatusOr<std::string> HeaderOf(const HostTensor& tensor) {
  const NpyType* const type =
      std::find_if(std::begin(kTypes), std::end(kTypes),
                   [&](const NpyType& one) { return one.dtype == tensor.dtype; });
  if (type == std::end(kTypes)) {
    return InvalidArgument("NumPy has no ", tensor.dtype, ", which the tensor is made of");
  }
  std::string header =
      "{'descr': '" + std::string(type->descr) + "', 'fortran_order': False, 'shape': (";
  for (int d = 0; d < tensor.shape.ndim(); ++d) header += std::to_string(tensor.shape[d]) + ", ";
  header += "), }";
  constexpr size_t kBefore = 10;
  constexpr size_t kAlignment = 64;
  header.append(kAlignment - 1 - (kBefore + header.size()) % kAlignment, ' ');
  header += '\n';
  std::string bytes(kMagic);
  bytes += {'\x01', '\x00', static_cast<char>(header.size() & 0xff),
            static_cast<char>(header.size() >> 8)};
  return bytes + header;
}

}  // namespace

Status WriteNpy(const std::string& path, const HostTensor& tensor) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string header, HeaderOf(tensor));
  // Of its own: another process may be writing the same file.
  const std::string part = path + "." + RandomHex(8) + ".part";
  std::ofstream file(part, std::ios::binary | std::ios::trunc);
  if (!file) return FileError("cannot write", path, errno);
  file << header;
  file.write(tensor.data.data(), static_cast<std::streamsize>(tensor.data.size()));
  file.close();
  std::error_code error;
  if (file) {
    std::filesystem::rename(part, path, error);
  } else {
    error = {errno, std::generic_category()};
  }
  if (!error) return OkStatus();
  std::error_code ignored;
  std::filesystem::remove(part, ignored);
  return FileError("cannot write", path, error.value());
}

StatusOr<HostTensor> ReadNpy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound("cannot open ", path, ": ", std::strerror(errno));
  StatusOr<HostTensor> tensor = ReadFrom(file);
  if (!tensor.ok()) return Annotate(tensor.status(), path);
  return tensor;
}

}  // namespace lockstep::cli
