#include "runtime/client/layout_commands.h"

#include <memory>
#include <utility>
#include <vector>

#include "runtime/control/message_codec.h"
#include "runtime/plan/layout_codec.h"

namespace lockstep::client {

StatusOr<plan::Layout> OnWorker0(const Shape& shape, DType dtype) {
  LOCKSTEP_ASSIGN_OR_RETURN(plan::Mesh mesh, plan::Mesh::Line({0}));
  return plan::Layout::Make(shape, dtype, std::move(mesh), {plan::Placement::Replicate()});
}

Status CheckLayout(const SessionCore& core, const plan::Layout& layout, const Shape& shape,
                   DType dtype) {
  for (const Rank rank : layout.mesh().ranks()) {
    LOCKSTEP_RETURN_IF_ERROR(Annotate(core.CheckRank(rank), "the layout's mesh"));
  }
  if (layout.shape() == shape && layout.dtype() == dtype) return OkStatus();
  return InvalidArgument("the tensor is ", dtype, shape, ", and the layout one of ", layout.dtype(),
                         layout.shape());
}

namespace {

// Null: they do not know it. Of one that another client has made, or declared.
StatusOr<std::shared_ptr<const plan::Layout>> AskForLayout(SessionCore& core, const DRef& ref) {
  LOCKSTEP_ASSIGN_OR_RETURN(const control::Frame body,
                            core.Ask(-1, [&](wire::Command::Builder command) {
                              command.initFindLayout().setTensor(ref.id().Packed());
                            }));
  std::shared_ptr<const plan::Layout> layout;
  if (body.size() == 0) return layout;
  LOCKSTEP_RETURN_IF_ERROR(
      control::DecodeMessage<wire::Layout>(body, [&](wire::Layout::Reader reader) -> Status {
        LOCKSTEP_ASSIGN_OR_RETURN(plan::Layout read,
                                  plan::ReadLayout(reader, core.facts().num_workers));
        layout = std::make_shared<const plan::Layout>(std::move(read));
        return OkStatus();
      }));
  return layout;
}

}  // namespace

StatusOr<plan::Layout> KnownLayout(SessionCore& core, const DRef& ref) {
  LOCKSTEP_RETURN_IF_ERROR(core.CheckOwn(ref, "the tensor"));
  std::shared_ptr<const plan::Layout> layout = core.LayoutOf(ref);
  if (layout == nullptr && core.MayHaveForeignLayout(ref)) {
    LOCKSTEP_ASSIGN_OR_RETURN(layout, AskForLayout(core, ref));
    core.SetToldLayout(ref, std::move(layout));
    // It may have been said here meanwhile.
    layout = core.LayoutOf(ref);
  }
  if (layout != nullptr) return *layout;
  return InvalidArgument("the layout of register ", ref.id(),
                         " is not known: say it by DeclareLayout()");
}

Status IssueDeclareLayout(SessionCore& core, const DRef& ref, const plan::Layout& layout) {
  LOCKSTEP_RETURN_IF_ERROR(core.Issue([&](wire::Command::Builder command) {
    auto declare = command.initDeclareLayout();
    declare.setTensor(ref.id().Packed());
    plan::WriteLayout(declare.initLayout(), layout);
  }));
  core.SetLayout(ref, std::make_shared<const plan::Layout>(layout));
  return OkStatus();
}

Status ForgetLayout(SessionCore& core, const DRef& ref) {
  std::shared_ptr<const plan::Layout> known = core.LayoutOf(ref);
  if (!core.ForgetLayout(ref)) return OkStatus();
  Status issued = core.Issue([&](wire::Command::Builder command) {
    command.initDeclareLayout().setTensor(ref.id().Packed());
  });
  // Who tries again forgets it again.
  if (!issued.ok() && known != nullptr) core.SetLayout(ref, std::move(known));
  return issued;
}

StatusOr<DRef> IssueReshard(SessionCore& core, const DRef& source, const plan::Layout& to,
                            MovedFor use, RegisterId loan) {
  LOCKSTEP_ASSIGN_OR_RETURN(const plan::Layout from, KnownLayout(core, source));
  LOCKSTEP_RETURN_IF_ERROR(CheckLayout(core, to, from.shape(), from.dtype()));
  LOCKSTEP_RETURN_IF_ERROR(plan::CheckReshard(from, to));
  std::vector<Rank> ranks(from.mesh().ranks().begin(), from.mesh().ranks().end());
  for (const Rank rank : to.mesh().ranks()) {
    if (!from.mesh().IndexOf(rank).has_value()) ranks.push_back(rank);
  }
  // It needs its ranks as an all-to-all among them does.
  const OperationUse operation{OperationKind::kAllToAll, false, ranks};
  const auto write = [&](wire::Command::Builder command, RegisterId result) {
    auto reshard = command.initReshard();
    reshard.setSource(source.id().Packed());
    reshard.setResult(result.Packed());
    reshard.setForFragment(use == MovedFor::kFragment);
    auto layouts = reshard.initLayouts();
    plan::WriteLayout(layouts.initFrom(), from);
    plan::WriteLayout(layouts.initTo(), to);
  };
  LOCKSTEP_ASSIGN_OR_RETURN(DRef result, core.IssueOperationNaming(operation, write, loan));
  core.SetLayout(result, std::make_shared<const plan::Layout>(to));
  if (use == MovedFor::kFragment) {
    for (const Rank rank : to.mesh().ranks()) {
      core.fragment_traffic().AddMoved(plan::BytesNewTo(rank, from, to));
    }
  }
  return result;
}

}  // namespace lockstep::client
