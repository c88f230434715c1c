#include "runtime/plan/program_codec.h"

#include <cstdlib>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/plan/layout_codec.h"

namespace lockstep::plan {
namespace {

std::string ToString(capnp::Text::Reader text) { return {text.cStr(), text.size()}; }

void WriteLiteral(wire::Program::Argument::Builder builder, const Literal& literal) {
  std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, bool>) {
          builder.setBool(value);
        } else if constexpr (std::is_same_v<T, int64_t>) {
          builder.setInt64(value);
        } else if constexpr (std::is_same_v<T, double>) {
          builder.setFloat64(value);
        } else if constexpr (std::is_same_v<T, std::string>) {
          builder.setText(value);
        } else if constexpr (std::is_same_v<T, DType>) {
          builder.setDtype(static_cast<wire::DType>(value));
        } else {
          auto dims = builder.initShape(static_cast<unsigned>(value.ndim()));
          for (unsigned d = 0; d < dims.size(); ++d) dims.set(d, value[static_cast<int>(d)]);
        }
      },
      literal);
}

void WriteArgument(wire::Program::Argument::Builder builder, const CallArgument& argument) {
  const int value = static_cast<int>(argument.value);
  switch (argument.use) {
    case CallArgument::Use::kLiteral:
      return WriteLiteral(builder, argument.literal);
    case CallArgument::Use::kRead:
      return builder.setRead(value);
    case CallArgument::Use::kWrite:
      return builder.setWrite(value);
    case CallArgument::Use::kUpdate:
      return builder.setUpdate(value);
  }
}

StatusOr<CallArgument> ReadArgument(wire::Program::Argument::Reader reader) {
  switch (reader.which()) {
    case wire::Program::Argument::BOOL:
      return Pass(reader.getBool());
    case wire::Program::Argument::INT64:
      return Pass(int64_t{reader.getInt64()});
    case wire::Program::Argument::FLOAT64:
      return Pass(reader.getFloat64());
    case wire::Program::Argument::TEXT:
      return Pass(ToString(reader.getText()));
    case wire::Program::Argument::DTYPE: {
      LOCKSTEP_ASSIGN_OR_RETURN(const DType dtype,
                                DTypeFromNumber(static_cast<int>(reader.getDtype())));
      return Pass(dtype);
    }
    case wire::Program::Argument::SHAPE: {
      if (reader.getShape().size() > Shape::kMaxDims) {
        return InvalidArgument("a shape has at most ", Shape::kMaxDims, " dimensions, not ",
                               reader.getShape().size());
      }
      std::vector<int64_t> extents;
      for (const int64_t extent : reader.getShape()) extents.push_back(extent);
      Shape shape{absl::MakeConstSpan(extents)};
      LOCKSTEP_RETURN_IF_ERROR(shape.Validate());
      return Pass(shape);
    }
    case wire::Program::Argument::READ:
      return Read(ValueId{reader.getRead()});
    case wire::Program::Argument::WRITE:
      return Write(ValueId{reader.getWrite()});
    case wire::Program::Argument::UPDATE:
      return Update(ValueId{reader.getUpdate()});
  }
  return InvalidArgument("unknown kind ", static_cast<int>(reader.which()), " of an argument");
}

void WriteOp(wire::Program::Op::Builder builder, const CallOp& call) {
  auto out = builder.initCall();
  out.setFunction(static_cast<uint32_t>(call.function));
  out.setResult(static_cast<int>(call.result));
  auto arguments = out.initArguments(static_cast<unsigned>(call.arguments.size()));
  for (unsigned a = 0; a < arguments.size(); ++a) WriteArgument(arguments[a], call.arguments[a]);
  if (!call.chunks.has_value()) return;
  auto chunks = out.initChunks();
  chunks.setCount(call.chunks->count);
  chunks.setArgument(call.chunks->argument);
  chunks.setAlong(call.chunks->along);
  chunks.setResultAlong(call.chunks->result_along);
}

// Program::Make() makes none with it, and lowering is each rank's own.
void WriteOp(wire::Program::Op::Builder, const ChunkOp&) { std::abort(); }

void WriteEnds(auto out, const auto& op) {
  out.setSource(static_cast<int>(op.source));
  out.setTarget(static_cast<int>(op.result));
}

void WriteOp(wire::Program::Op::Builder builder, const ReshardOp& reshard) {
  WriteEnds(builder.initReshard(), reshard);
}

void WriteOp(wire::Program::Op::Builder builder, const ViewOp& view) {
  WriteEnds(builder.initView(), view);
}

void WriteOp(wire::Program::Op::Builder builder, const CollectiveOp& op) {
  auto out = builder.initCollective();
  WriteEnds(out, op);
  out.setKind(static_cast<uint8_t>(op.what.kind));
  out.setAxis(op.what.axis);
  out.setDim(op.what.dim);
  out.setReduction(static_cast<uint8_t>(op.what.op));
  out.setRoot(op.what.root);
}

StatusOr<CollectiveOp> ReadCollective(wire::Program::Op::Collective::Reader reader) {
  if (FindOperation(reader.getKind()) == nullptr) {
    return InvalidArgument("unknown kind ", +reader.getKind(), " of a collective");
  }
  if (reader.getReduction() >= kReductionCount) {
    return InvalidArgument("a collective has the unknown reduction ", +reader.getReduction());
  }
  return CollectiveOp{{.kind = static_cast<OperationKind>(reader.getKind()),
                       .axis = ToString(reader.getAxis()),
                       .dim = reader.getDim(),
                       .op = static_cast<Reduction>(reader.getReduction()),
                       .root = reader.getRoot()},
                      ValueId{reader.getSource()},
                      ValueId{reader.getTarget()}};
}

StatusOr<ProgramOp> ReadOp(wire::Program::Op::Reader reader) {
  ProgramOp op;
  op.where = ToString(reader.getWhere());
  switch (reader.which()) {
    case wire::Program::Op::CALL: {
      auto call = reader.getCall();
      // Looked at before anything is made of them.
      if (call.getArguments().size() > Program::kMaxArguments) {
        return InvalidArgument("a call has at most ", Program::kMaxArguments, " arguments, not ",
                               call.getArguments().size());
      }
      CallOp what{static_cast<int>(call.getFunction()), {}, ValueId{call.getResult()}};
      for (auto argument : call.getArguments()) {
        LOCKSTEP_ASSIGN_OR_RETURN(CallArgument read, ReadArgument(argument));
        what.arguments.push_back(std::move(read));
      }
      if (call.hasChunks()) {
        auto chunks = call.getChunks();
        what.chunks = {.count = chunks.getCount(),
                       .argument = chunks.getArgument(),
                       .along = chunks.getAlong(),
                       .result_along = chunks.getResultAlong()};
      }
      op.what = std::move(what);
      return op;
    }
    case wire::Program::Op::RESHARD:
      op.what = ReshardOp{ValueId{reader.getReshard().getSource()},
                          ValueId{reader.getReshard().getTarget()}};
      return op;
    case wire::Program::Op::VIEW:
      op.what =
          ViewOp{ValueId{reader.getView().getSource()}, ValueId{reader.getView().getTarget()}};
      return op;
    case wire::Program::Op::COLLECTIVE: {
      LOCKSTEP_ASSIGN_OR_RETURN(op.what, ReadCollective(reader.getCollective()));
      return op;
    }
  }
  return InvalidArgument("unknown kind ", static_cast<int>(reader.which()), " of an operation");
}

void WriteValues(wire::Program::Builder builder, const Program& program) {
  std::vector<const Layout*> layouts;
  auto values = builder.initValues(static_cast<unsigned>(program.values().size()));
  for (unsigned i = 0; i < values.size(); ++i) {
    const ProgramValue& value = program.values()[i];
    size_t number = 0;
    while (number < layouts.size() && !(*layouts[number] == value.layout)) ++number;
    if (number == layouts.size()) layouts.push_back(&value.layout);
    values[i].setLayout(static_cast<uint32_t>(number));
    if (!value.name.empty()) values[i].setName(value.name);
  }
  auto list = builder.initLayouts(static_cast<unsigned>(layouts.size()));
  for (unsigned i = 0; i < list.size(); ++i) WriteLayout(list[i], *layouts[i]);
}

Status ReadValues(wire::Program::Reader reader, int world_size, Program::Parts& parts) {
  std::vector<Layout> layouts;
  for (auto layout : reader.getLayouts()) {
    LOCKSTEP_ASSIGN_OR_RETURN(Layout read, ReadLayout(layout, world_size));
    layouts.push_back(std::move(read));
  }
  for (auto value : reader.getValues()) {
    if (value.getLayout() >= layouts.size()) {
      return InvalidArgument("a value has layout ", value.getLayout(), ", and there are ",
                             layouts.size());
    }
    parts.values.push_back({ToString(value.getName()), layouts[value.getLayout()]});
  }
  for (const uint32_t id : reader.getInputs()) {
    parts.inputs.push_back(ValueId{static_cast<int>(id)});
  }
  for (const uint32_t id : reader.getOutputs()) {
    parts.outputs.push_back(ValueId{static_cast<int>(id)});
  }
  return OkStatus();
}

}  // namespace

void WriteProgram(wire::Program::Builder builder, const Program& program) {
  builder.setVersion(Program::kVersion);
  WriteValues(builder, program);
  auto inputs = builder.initInputs(static_cast<unsigned>(program.inputs().size()));
  for (unsigned i = 0; i < inputs.size(); ++i) {
    inputs.set(i, static_cast<uint32_t>(program.inputs()[i]));
  }
  auto outputs = builder.initOutputs(static_cast<unsigned>(program.outputs().size()));
  for (unsigned i = 0; i < outputs.size(); ++i) {
    outputs.set(i, static_cast<uint32_t>(program.outputs()[i]));
  }
  auto functions = builder.initFunctions(static_cast<unsigned>(program.functions().size()));
  for (unsigned i = 0; i < functions.size(); ++i) functions.set(i, program.functions()[i]);
  auto ops = builder.initOps(static_cast<unsigned>(program.ops().size()));
  for (unsigned i = 0; i < ops.size(); ++i) {
    const ProgramOp& op = program.ops()[i];
    ops[i].setWhere(op.where);
    std::visit([&](const auto& what) { WriteOp(ops[i], what); }, op.what);
  }
}

StatusOr<Program> ReadProgram(wire::Program::Reader reader, int world_size) {
  if (reader.getVersion() != Program::kVersion) {
    return FailedPrecondition("the program has the format ", reader.getVersion(),
                              ", and this worker's is ", Program::kVersion,
                              "; install the same release everywhere");
  }
  const size_t most_values = Program::kMaxValues;
  if (reader.getOps().size() > Program::kMaxOps || reader.getValues().size() > most_values ||
      reader.getLayouts().size() > most_values || reader.getFunctions().size() > most_values) {
    return InvalidArgument("a program has at most ", Program::kMaxOps, " operations and ",
                           most_values, " values");
  }
  Program::Parts parts;
  LOCKSTEP_RETURN_IF_ERROR(ReadValues(reader, world_size, parts));
  for (auto name : reader.getFunctions()) parts.functions.push_back(ToString(name));
  for (auto op : reader.getOps()) {
    LOCKSTEP_ASSIGN_OR_RETURN(ProgramOp read, ReadOp(op));
    parts.ops.push_back(std::move(read));
  }
  return Program::Make(std::move(parts));
}

}  // namespace lockstep::plan
