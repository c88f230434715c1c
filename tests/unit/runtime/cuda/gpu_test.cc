#include "runtime/cuda/gpu.h"

#include <cstdlib>
#include <numeric>
#include <thread>

#include "tests/unit/runtime/cuda/gpu_under_test.h"
#ifdef LOCKSTEP_FAKE_GPU
#include "runtime/cuda/driver/library.h"
#endif

namespace lockstep::cuda {
namespace {

TEST_F(GpuTest, TellsWhatItIs) {
  const GpuFacts& facts = gpu_->facts();
  EXPECT_EQ(facts.index, 0);
  EXPECT_FALSE(facts.name.empty());
  EXPECT_NE(facts.bus_id.find(':'), std::string::npos) << facts.bus_id;
  EXPECT_GE(facts.major, 7);
  EXPECT_GT(facts.memory_bytes, size_t{100} << 20);
  EXPECT_GE(facts.driver_version, 12000);
  EXPECT_EQ(facts.uuid.size(), 36u) << facts.uuid;
}

TEST_F(GpuTest, ListsWhatCanBeOpened) {
  const auto gpus = ListGpus();
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  ASSERT_FALSE(gpus->empty());
  EXPECT_EQ(gpus->front().bus_id, gpu_->facts().bus_id);
  const auto none = OpenGpu(static_cast<int>(gpus->size()));
  EXPECT_EQ(none.status().code(), StatusCode::kNotFound);
  EXPECT_NE(Message(none.status()).find("sees " + std::to_string(gpus->size())), std::string::npos)
      << none.status();
  EXPECT_EQ(OpenGpu(-1).status().code(), StatusCode::kNotFound);
}

TEST_F(GpuTest, CopiesWhatOneStreamIsGivenInOrder) {
  std::vector<int> numbers(1000);
  std::iota(numbers.begin(), numbers.end(), 0);
  const auto first = Put(numbers);
  const auto second = Allocate(numbers.size() * sizeof(int));
  ASSERT_TRUE(streams_->compute().Copy(second->data(), first->data(), second->size_bytes()).ok());
  EXPECT_EQ(Get<int>(second->data(), numbers.size()), numbers);
}

TEST_F(GpuTest, CopiesRowsBetweenPitches) {
  std::vector<int> matrix(6 * 4);
  std::iota(matrix.begin(), matrix.end(), 0);
  const auto from = Put(matrix);
  const auto to = Put(std::vector<int>(6 * 2, -1));
  // Columns 1 and 2 of the 6 x 4 matrix.
  ASSERT_TRUE(streams_->compute()
                  .CopyRows(to->data(), 2 * sizeof(int), static_cast<int*>(from->data()) + 1,
                            4 * sizeof(int), 2 * sizeof(int), 6)
                  .ok());
  EXPECT_EQ(Get<int>(to->data(), 12),
            (std::vector<int>{1, 2, 5, 6, 9, 10, 13, 14, 17, 18, 21, 22}));
}

TEST_F(GpuTest, EventsTellOrderAndTime) {
  const auto first = gpu_->NewEvent(/*timed=*/true);
  const auto second = gpu_->NewEvent(/*timed=*/true);
  ASSERT_TRUE(first.ok() && second.ok());
  const auto memory = Allocate(size_t{8} << 20);
  ASSERT_TRUE(streams_->compute().Record(**first).ok());
  ASSERT_TRUE(
      streams_->compute()
          .Copy(memory->data(), static_cast<std::byte*>(memory->data()) + (4 << 20), 4 << 20)
          .ok());
  ASSERT_TRUE(streams_->compute().Record(**second).ok());
  ASSERT_TRUE(Await(**second, Enough(), "a copy").ok());
  EXPECT_EQ((*first)->IsDone().value(), true);
  const auto time = (*second)->Since(**first);
  ASSERT_TRUE(time.ok()) << time.status();
  EXPECT_GT(time->count(), 0);
}

#ifdef LOCKSTEP_FAKE_GPU
TEST_F(GpuTest, SlicesOfAGpuAreToldApartByTheirUuids) {
  setenv("FAKE_CUDA_SLICES", "2", 1);
  const auto gpus = ListGpus();
  unsetenv("FAKE_CUDA_SLICES");
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  ASSERT_GE(gpus->size(), 2u);
  EXPECT_EQ((*gpus)[0].bus_id, (*gpus)[1].bus_id);
  EXPECT_NE((*gpus)[0].uuid, (*gpus)[1].uuid);
}

TEST(DriverVersionTest, EveryDriverOfTheToolkitsMajorVersionWillDo) {
  EXPECT_TRUE(CheckDriverVersion(12000, 12080).ok());
  EXPECT_TRUE(CheckDriverVersion(12080, 12080).ok());
  EXPECT_TRUE(CheckDriverVersion(13000, 12080).ok());
  EXPECT_TRUE(CheckDriverVersion(13000, 13010).ok());
}

TEST(DriverVersionTest, AnOlderOneIsRefusedWithWhatWouldDo) {
  const Status older = CheckDriverVersion(12080, 13000);
  EXPECT_EQ(older.code(), StatusCode::kUnavailable);
  for (const char* part : {"knows CUDA 12.8", "compiled by CUDA 13.0", "driver 580",
                           "toolkit of CUDA 12", "LOCKSTEP_CUDA"}) {
    EXPECT_NE(Message(older).find(part), std::string::npos) << older;
  }
  EXPECT_NE(Message(CheckDriverVersion(11080, 12080)).find("driver 525"), std::string::npos);
}

// Drivers differ: that of CUDA 13.0 takes the stream's context instead. Nothing here relies on it.
TEST_F(GpuTest, AThreadThatIsNotBoundCannotUseIt) {
  const auto memory = Allocate(8);
  std::thread([&] {
    const Status copied = streams_->compute().Copy(memory->data(), memory->data(), 4);
    EXPECT_EQ(copied.code(), StatusCode::kInternal);
    EXPECT_NE(Message(copied).find("CUDA_ERROR_INVALID_CONTEXT"), std::string::npos) << copied;
    EXPECT_TRUE(gpu_->Bind().ok());
    EXPECT_TRUE(streams_->compute().Copy(memory->data(), memory->data(), 4).ok());
  }).join();
  EXPECT_TRUE(gpu_->Loss().ok()) << "a call that is refused loses nothing";
}
#endif

TEST_F(GpuTest, KernelsThatAreNotThereAreErrors) {
  const auto kernel = gpu_->FindKernel("lockstep_no_such_kernel");
  ASSERT_FALSE(kernel.ok());
  EXPECT_NE(Message(kernel.status()).find("lockstep_no_such_kernel"), std::string::npos)
      << kernel.status();
  EXPECT_TRUE(gpu_->Loss().ok()) << "a call that is refused loses nothing";
}

}  // namespace
}  // namespace lockstep::cuda
