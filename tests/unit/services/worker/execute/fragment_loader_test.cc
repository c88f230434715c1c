#include "services/worker/execute/fragment_loader.h"

#include <gmock/gmock.h>
#include <poll.h>

#include <string>

#include "tests/unit/runtime/fragment/fake_compiler.h"
#include "tests/unit/services/worker/execute/executor_under_test.h"

namespace lockstep::worker {
namespace {

using fragment::FakeCompiler;
using testing::HasSubstr;

class FragmentLoaderTest : public ExecutorTest {
 protected:
  FragmentLoaderTest() { cache_.compiler = fake_.Options(); }

  void Load(FragmentLoader& loader, const std::string& source, uint64_t request) {
    capnp::MallocMessageBuilder message;
    auto fragment = message.initRoot<wire::FragmentSource>();
    fragment.setName("test.mlir");
    fragment.setSource({reinterpret_cast<const kj::byte*>(source.data()), source.size()});
    BatchContext batch;
    batch.session = kSession;
    batch.request = RequestId(request);
    loader.Load(Session(), batch, fragment.asReader());
  }
  SessionState& Session() { return *executor_->sessions().Find(kSession); }

  const FakeCompiler fake_;
  ObjectCacheOptions cache_;
  ControllerReports reports_{nullptr};
};

// What the former client has asked for was given up, which is told when the next one has asked for
// the same: the fragment that the next one waits for must still be there.
TEST_F(FragmentLoaderTest, TheEndOfAFormerClientsGrantIsNotThatOfTheNextOne) {
  OpenSession();
  reports_.SetController(membership_, channel_);
  FragmentLoader loader(cache_, nullptr, executor_->sessions(), reports_, nullptr);
  Load(loader, "hang", 10);
  loader.Forget(Session());
  control::SessionRecord next = Session().Record();
  ++next.client_number;
  executor_->sessions().Adopt(Session(), next);
  Load(loader, "hang", 20);

  pollfd input{loader.fd(), POLLIN, 0};
  ASSERT_EQ(poll(&input, 1, 60'000), 1);
  loader.AnswerCompiled();
  EXPECT_THAT(
      Message(Session().fragments().Find(FakeCompiler::Work("hang").fragment.key()).status()),
      HasSubstr("test.mlir is still being compiled"));
}

}  // namespace
}  // namespace lockstep::worker
