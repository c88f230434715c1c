#include "services/worker/fragment/object_cache.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "tests/support/files.h"
#include "tests/unit/runtime/fragment/fake_compiler.h"
#include "tests/unit/services/worker/fragment/processes.h"

namespace lockstep::worker {
namespace {

using fragment::FakeCompiler;
using testing::Each;
using testing::HasSubstr;

class ObjectCacheTest : public testing::Test {
 protected:
  ObjectCacheOptions Options() const {
    ObjectCacheOptions options;
    options.compiler = fake_.Options();
    options.directory = fake_.Path("objects");
    return options;
  }
  static auto Get(ObjectCache& cache, const std::string& source = "sum", int give_up_fd = -1) {
    return cache.Get(FakeCompiler::Work(source), give_up_fd);
  }
  std::string OnlyObjectFile() const {
    std::string found;
    for (const auto& entry : std::filesystem::directory_iterator(fake_.Path("objects"))) {
      if (entry.path().extension() == ".object") found = entry.path();
    }
    return found;
  }

  const FakeCompiler fake_;
};

TEST_F(ObjectCacheTest, CompilesOnceThenFindsInMemoryAndOnDisk) {
  ObjectCache cache(Options());
  const auto first = Get(cache);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ((*first)->signature().function, "sum");
  EXPECT_EQ(cache.last_load().origin, fragment::Origin::kCompiler);
  EXPECT_GT(cache.last_load().compiling.count(), 0);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(*Get(cache), *first);
  EXPECT_EQ(cache.last_load().origin, fragment::Origin::kMemory);
  EXPECT_EQ(cache.last_load().compiling.count(), 0);
  const ObjectCacheUse use = cache.use();
  EXPECT_EQ(use.compiles, 1u);
  EXPECT_EQ(use.memory_hits, 1000u);
  EXPECT_EQ(use.disk_hits, 0u);
  EXPECT_EQ(use.failures, 0u);
  EXPECT_GT(use.compiling.count(), 0);
  EXPECT_EQ(use.loaded, 1u);
  EXPECT_EQ(use.loaded_bytes, (*first)->size_bytes());

  ObjectCache later(Options());
  EXPECT_TRUE(Get(later).ok());
  EXPECT_EQ(later.last_load().origin, fragment::Origin::kDisk);
  EXPECT_EQ(later.use().disk_hits, 1u);
  EXPECT_EQ(later.use().compiles, 0u);
  EXPECT_EQ(fake_.Requests(), 1u);
}

TEST_F(ObjectCacheTest, SaysWhatCompilesAndAsksOnce) {
  ObjectCache cache(Options());
  const fragment::CompilerIdentity first{"fake 1", "cpu", "+all"};
  EXPECT_EQ(*cache.Compiler(), first);
  fake_.SetVersion("fake 2");
  EXPECT_EQ(*cache.Compiler(), first);
}

TEST_F(ObjectCacheTest, FourProcessesThatStartAtOnceCompileOnce) {
  const auto codes = RunAtOnce(4, [&](int) {
    ObjectCache cache(Options());
    return Get(cache).ok() ? 0 : 1;
  });
  EXPECT_THAT(codes, Each(0));
  EXPECT_EQ(fake_.Requests(), 1u);
}

TEST_F(ObjectCacheTest, WithoutADirectoryEachCompiles) {
  ObjectCacheOptions options = Options();
  options.directory = "";
  for (int i = 0; i < 2; ++i) {
    ObjectCache cache(options);
    EXPECT_TRUE(Get(cache).ok());
    EXPECT_TRUE(Get(cache).ok());
  }
  EXPECT_EQ(fake_.Requests(), 2u);
}

TEST_F(ObjectCacheTest, DirectoryThatIsNotTrustedIsDoneWithout) {
  const std::string directory = fake_.Path("objects");
  ASSERT_EQ(mkdir(directory.c_str(), 0700), 0);
  ASSERT_EQ(chmod(directory.c_str(), 0777), 0);
  ObjectCache cache(Options());
  EXPECT_TRUE(Get(cache).ok());
  EXPECT_TRUE(std::filesystem::is_empty(directory));
}

TEST_F(ObjectCacheTest, DamagedFileIsCompiledAgainAndReplaced) {
  {
    ObjectCache cache(Options());
    ASSERT_TRUE(Get(cache).ok());
  }
  const std::string whole = support::ReadFile(OnlyObjectFile());
  std::ofstream(OnlyObjectFile(), std::ios::binary) << whole.substr(0, whole.size() / 2);
  {
    ObjectCache cache(Options());
    EXPECT_TRUE(Get(cache).ok());
    EXPECT_EQ(cache.use().compiles, 1u);
  }
  EXPECT_EQ(support::ReadFile(OnlyObjectFile()), whole);
  EXPECT_EQ(fake_.Requests(), 2u);
}

// The file is whole, and what is in it cannot be loaded.
TEST_F(ObjectCacheTest, ObjectThatCannotBeLoadedIsCompiledAgain) {
  {
    ObjectCache cache(Options());
    EXPECT_THAT(Message(Get(cache, "no object").status()), HasSubstr("cannot be loaded"));
  }
  ASSERT_FALSE(OnlyObjectFile().empty());
  ObjectCache cache(Options());
  EXPECT_FALSE(Get(cache, "no object").ok());
  EXPECT_EQ(cache.use().compiles, 1u);
  EXPECT_EQ(cache.use().disk_hits, 0u);
}

TEST_F(ObjectCacheTest, ErrorsOfTheFragmentAreFoundOnceForAll) {
  for (int i = 0; i < 2; ++i) {
    ObjectCache cache(Options());
    EXPECT_EQ(Get(cache, "wrong").status(),
              InvalidArgument("test.mlir:3:10: 'arith.addf': operand types differ"));
    EXPECT_EQ(cache.use().failures, 1u);
  }
  EXPECT_EQ(fake_.Requests(), 1u);
}

TEST_F(ObjectCacheTest, WhatMayEndOtherwiseNextTimeIsTriedAgain) {
  ObjectCache cache(Options());
  for (const char* source : {"limited", "crash", "give up", "nonsense", "nothing", "old"}) {
    const size_t before = fake_.Requests();
    const Status first = Get(cache, source).status();
    EXPECT_FALSE(first.ok()) << source;
    EXPECT_THAT(Message(first), HasSubstr("test.mlir")) << source;
    EXPECT_FALSE(Get(cache, source).ok()) << source;
    EXPECT_EQ(fake_.Requests(), before + 2) << source;
  }
  EXPECT_TRUE(Get(cache).ok()) << "and other fragments are compiled as ever";
}

TEST_F(ObjectCacheTest, WaitingForAnotherWorkersCompilerCanBeGivenUp) {
  ObjectCache cache(Options());
  ASSERT_TRUE(Get(cache).ok());
  const auto directory = ObjectDirectory::Open(fake_.Path("objects"));
  ASSERT_TRUE(directory.ok()) << directory.status();
  const auto work = FakeCompiler::Work("hang");
  const auto lock = directory->Lock(fragment::KeyOf(work, {"fake 1", "cpu", "+all"}),
                                    {Deadline::After(std::chrono::seconds(0))});
  ASSERT_TRUE(lock.ok()) << lock.status();
  int given_up[2];
  ASSERT_EQ(pipe(given_up), 0);
  ASSERT_EQ(write(given_up[1], "x", 1), 1);
  EXPECT_EQ(Get(cache, "hang", given_up[0]).status(),
            Aborted("test.mlir: was given up while another process compiled it"));
  EXPECT_EQ(cache.use().compiles, 1u);
  close(given_up[0]);
  close(given_up[1]);
}

// How many have opened the file, in this process.
int CountOpen(const std::string& file) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry.path(), gone) == file) ++count;
  }
  return count;
}

// As on a full disk: what the first worker has compiled is not there. The others do not wait for
// each other then.
TEST_F(ObjectCacheTest, WhereNothingCanBeKeptWorkersCompileBesideOneAnother) {
  using std::chrono::milliseconds;
  const auto directory = ObjectDirectory::Open(fake_.Path("objects"));
  ASSERT_TRUE(directory.ok()) << directory.status();
  const fragment::ObjectKey key =
      fragment::KeyOf(FakeCompiler::Work("hang"), {"fake 1", "cpu", "+all"});
  const std::string lock_file = std::filesystem::canonical(fake_.Path("objects")) / "lock";
  ObjectCache cache(Options());
  ASSERT_TRUE(cache.Compiler().ok());
  bool is_free = false;
  // The second may come just when the first has done, and then has not waited.
  for (int round = 0; round < 100 && !is_free; ++round) {
    std::filesystem::remove(fake_.Path("ran"));
    auto first = std::make_optional(directory->Lock(key, {Deadline::After(milliseconds(0))}));
    ASSERT_TRUE((*first).ok()) << (*first).status();
    int given_up[2];
    ASSERT_EQ(pipe(given_up), 0);
    std::thread second([&] { (void)Get(cache, "hang", given_up[0]); });
    while (CountOpen(lock_file) < 2) std::this_thread::yield();
    first.reset();
    while (!std::filesystem::exists(fake_.Path("ran"))) std::this_thread::yield();
    is_free = directory->Lock(key, {Deadline::After(milliseconds(100))}).ok();
    EXPECT_EQ(write(given_up[1], "x", 1), 1);
    second.join();
    close(given_up[0]);
    close(given_up[1]);
  }
  EXPECT_TRUE(is_free) << "the second one has kept the lock while it compiles";
}

TEST_F(ObjectCacheTest, ObjectsOfACompilerThatWasReplacedAreNotMistaken) {
  ObjectCache cache(Options());
  ASSERT_TRUE(Get(cache).ok());
  fake_.SetVersion("fake 2");
  // Compiled by another than the cache knows of, so not kept under the key of that.
  EXPECT_TRUE(Get(cache, "other").ok());
  {
    fake_.SetVersion("fake 1");
    ObjectCache before(Options());
    EXPECT_TRUE(Get(before, "other").ok());
    EXPECT_EQ(before.use().compiles, 1u);
  }
  fake_.SetVersion("fake 2");
  EXPECT_TRUE(Get(cache).ok());
  EXPECT_EQ(cache.use().compiles, 3u) << "it has asked again who compiles";
}

TEST_F(ObjectCacheTest, LoadedObjectsAreBounded) {
  ObjectCacheOptions options = Options();
  options.max_loaded = 1;
  ObjectCache cache(options);
  const auto first = Get(cache, "one");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(Get(cache, "two").ok());
  EXPECT_EQ(cache.use().loaded, 1u);
  EXPECT_NE(*Get(cache, "one"), *first) << "loaded again, from disk";
  EXPECT_EQ((*first)->signature().function, "sum") << "and held by its user";
  EXPECT_EQ(cache.use().compiles, 2u);
}

TEST_F(ObjectCacheTest, WithoutACompilerFragmentsAreNotAvailable) {
  ObjectCacheOptions options = Options();
  options.compiler.program = "/nonexistent/compiler";
  ObjectCache cache(options);
  const Status status = Get(cache).status();
  EXPECT_EQ(cache.Compiler().status(), status);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(status), HasSubstr("fragments are not available: "));
  EXPECT_EQ(cache.use().failures, 1u);
}

}  // namespace
}  // namespace lockstep::worker
