#include "services/worker/execute/fragment_loader.h"

#include <memory>
#include <string>
#include <utility>

#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"
#include "runtime/fragment/object_key.h"
#include "runtime/fragment/signature_codec.h"

namespace lockstep::worker {
namespace {

StatusOr<fragment::Fragment> ReadFragment(wire::FragmentSource::Reader reader) {
  const auto data = reader.getSource();
  std::string source(reinterpret_cast<const char*>(data.begin()), data.size());
  std::string name = control::ToString(reader.getName());
  switch (reader.getKind()) {
    case wire::FragmentKind::MLIR:
      return fragment::Fragment::Mlir(std::move(source), std::move(name));
    case wire::FragmentKind::CUDA:
      return fragment::Fragment::Cuda(std::move(source), control::ToString(reader.getEntry()),
                                      std::move(name));
    case wire::FragmentKind::FUNCTION:
      return fragment::Fragment::Function(control::ToString(reader.getEntry()));
    default:
      return Unimplemented("a fragment of kind ", static_cast<int>(reader.getKind()),
                           " is not compiled");
  }
}

// What is wrong with the fragment itself is the same on all ranks; of all else it helps to know
// where it is.
bool IsOfFragment(StatusCode code) {
  return code == StatusCode::kInvalidArgument || code == StatusCode::kUnimplemented;
}

}  // namespace

void FragmentLoader::Load(SessionState& session, const BatchContext& batch,
                          wire::FragmentSource::Reader source) {
  const auto refuse = [&](const Status& why) { Answer(batch, why); };
  StatusOr<fragment::Fragment> fragment = ReadFragment(source);
  if (!fragment.ok()) return refuse(fragment.status());
  if (fragment->kind() == fragment::Kind::kFunction) {
    return LoadFunction(session, batch, *fragment);
  }
  const fragment::ObjectKey key = fragment->key();
  const Status granted = session.fragments().Grant(key, fragment->name());
  if (!granted.ok()) return refuse(granted);
  thread_.Add({session.id(),
               session.generation(),
               session.client_number(),
               batch.request,
               key,
               {*std::move(fragment)}});
}

void FragmentLoader::LoadFunction(SessionState& session, const BatchContext& batch,
                                  const fragment::Fragment& fragment) {
  StatusOr<std::shared_ptr<module::Function>> function = find_function_(session, fragment.entry());
  Status status = function.status();
  if (status.ok()) {
    status =
        session.fragments().GrantFunction(fragment.key(), fragment.name(), *std::move(function));
  }
  if (!status.ok()) return Answer(batch, status);
  Answer(batch, fragment::Signature{fragment.entry(), {}, {}});
}

void FragmentLoader::Forget(SessionState& session) {
  session.fragments().Clear();
  thread_.GiveUp(session.id());
}

void FragmentLoader::AnswerAll() {
  // Before the answers: whoever has one may look at the metrics.
  if (recorder_ != nullptr) recorder_->SetFragments(thread_.use());
  for (const CompiledJob& done : thread_.TakeDone()) {
    const std::shared_ptr<SessionState> session = sessions_.Find(done.session);
    StatusOr<std::shared_ptr<const LoadedObject>> object = done.object;
    // The end of a former client's grant is none of a later one's, also of the same fragment.
    if (session != nullptr && session->generation() == done.generation &&
        session->client_number() == done.client) {
      const Status kept = session->FinishFragment(done.key, object.ok() ? *object : nullptr);
      if (!kept.ok()) object = kept;
    }
    BatchContext batch;
    batch.session = done.session;
    batch.generation = done.generation;
    batch.request = done.request;
    Answer(batch,
           object.ok() ? StatusOr<fragment::Signature>((*object)->signature()) : object.status(),
           done.load);
  }
}

void FragmentLoader::Answer(const BatchContext& batch, const StatusOr<fragment::Signature>& done,
                            fragment::Load load) {
  control::RemoteError error;
  control::Frame body;
  if (!done.ok()) {
    error = control::ErrorOf(done.status());
    if (!IsOfFragment(error.code)) error.rank = rank_;
  } else {
    load.rank = rank_;
    body = control::EncodeMessage<wire::FragmentLoaded>([&](wire::FragmentLoaded::Builder builder) {
      fragment::WriteLoad(builder, load);
      builder.setSignatureDigest(fragment::DigestOf(*done));
      if (rank_ == 0) fragment::WriteSignature(builder.initSignature(), *done);
    });
  }
  reports_.Reply(batch, error, body);
}

}  // namespace lockstep::worker
