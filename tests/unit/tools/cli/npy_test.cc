#include "tools/cli/npy.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "gtest/gtest.h"

namespace lockstep::cli {
namespace {

// A .npy file of version 1 with this header and data.
class NpyTest : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  StatusOr<HostTensor> Read(const std::string& header, const std::string& data) {
    std::string file("\x93NUMPY\x01\x00", 8);
    file += static_cast<char>(header.size() & 0xff);
    file += static_cast<char>(header.size() >> 8);
    return ReadBytes(file + header + data);
  }

  StatusOr<HostTensor> ReadBytes(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
    return ReadNpy(path_);
  }

  const std::string path_ = [] {
    const char* directory = std::getenv("TEST_TMPDIR");
    std::string name = (directory == nullptr ? "/tmp" : directory) + std::string("/npy-XXXXXX");
    const int fd = mkstemp(name.data());
    EXPECT_GE(fd, 0);
    close(fd);
    return name;
  }();
};

TEST_F(NpyTest, ReadsAnArrayAsNumPyWritesIt) {
  const float elements[] = {1, 2, 3, 4, 5, 6};
  const std::string data(reinterpret_cast<const char*>(elements), sizeof(elements));
  const auto tensor =
      Read("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }          \n", data);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->dtype, DType::kFloat32);
  EXPECT_EQ(tensor->shape, (Shape{2, 3}));
  EXPECT_EQ(tensor->data, data);
}

TEST_F(NpyTest, ReadsVectorsScalarsAndEmptyArrays) {
  const auto vector = Read("{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }\n", "abc");
  ASSERT_TRUE(vector.ok()) << vector.status();
  EXPECT_EQ(vector->shape, (Shape{3}));
  const auto scalar = Read("{'descr': '|b1', 'fortran_order': False, 'shape': (), }\n", "\x01");
  ASSERT_TRUE(scalar.ok()) << scalar.status();
  EXPECT_EQ(scalar->shape, (Shape{}));
  const auto empty = Read("{'descr': '<i8', 'fortran_order': False, 'shape': (0, 4), }\n", "");
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_EQ(empty->shape, (Shape{0, 4}));
}

TEST_F(NpyTest, WhatCannotBeReadIsRefusedWithTheReason) {
  const auto error = [this](const std::string& header, const std::string& data) {
    const auto tensor = Read(header, data);
    EXPECT_EQ(tensor.status().code(), StatusCode::kInvalidArgument);
    return Message(tensor.status());
  };
  EXPECT_NE(error("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", "abcd")
                .find("little-endian"),
            std::string::npos);
  EXPECT_NE(
      error("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", "abcd").find("Fortran"),
      std::string::npos);
  EXPECT_NE(error("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "abcd")
                .find("8 bytes of data, but the file has 4"),
            std::string::npos);
  error("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "");
  error("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 8), }", "");
  error("{'descr': '<f4', 'fortran_order': False, 'shape': (1", "");
  error("{}", "");
}

TEST_F(NpyTest, TruncatedAndForeignFilesAreRefused) {
  EXPECT_EQ(ReadBytes("").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadBytes("not an array").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadBytes(std::string("\x93NUMPY\x01\x00\xff\xff", 10)).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadBytes(std::string("\x93NUMPY\x09\x00", 8)).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(NpyTest, AMissingFileIsNamed) {
  const auto tensor = ReadNpy("/nowhere/x.npy");
  EXPECT_EQ(tensor.status().code(), StatusCode::kNotFound);
  EXPECT_NE(Message(tensor.status()).find("/nowhere/x.npy"), std::string::npos);
}

TEST_F(NpyTest, WhatIsWrittenIsReadAgain) {
  for (const HostTensor& tensor :
       {HostTensor::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6}), HostTensor::Of<int64_t>({}, {-7}),
        HostTensor::Of<double>({0, 4}, {}), HostTensor::Of<uint8_t>({1}, {255})}) {
    ASSERT_TRUE(WriteNpy(path_, tensor).ok());
    const auto read = ReadNpy(path_);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, tensor);
    EXPECT_EQ((std::filesystem::file_size(path_) - tensor.data.size()) % 64, 0u);
  }
  const Status unknown = WriteNpy(path_, {DType::kBFloat16, {1}, "ab"});
  EXPECT_EQ(unknown.code(), StatusCode::kInvalidArgument) << unknown;
  // A directory is in the way of the file, which is written beside it.
  const std::string within = path_ + ".d";
  ASSERT_TRUE(std::filesystem::create_directories(within + "/y.npy"));
  EXPECT_FALSE(WriteNpy(within + "/y.npy", HostTensor::Of<float>({1}, {1})).ok());
  const std::filesystem::directory_iterator left(within);
  EXPECT_EQ(std::distance(begin(left), end(left)), 1) << "and nothing is left of it";
  std::filesystem::remove_all(within);
  const Status nowhere = WriteNpy("/nonexistent/y.npy", HostTensor::Of<float>({1}, {1}));
  EXPECT_EQ(nowhere.code(), StatusCode::kNotFound) << nowhere;
}

}  // namespace
}  // namespace lockstep::cli
