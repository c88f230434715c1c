// Answers of the fragment compiler.
#include <capnp/message.h>
#include <capnp/serialize.h>

#include <string>
#include <vector>

#include "runtime/fragment/abi.h"
#include "runtime/fragment/call_codec.h"
#include "schemas/fragment.capnp.h"
#include "tests/fuzz/seeds.h"

namespace lockstep::fuzz {
namespace {

void SetType(wire::FragmentType::Builder type, wire::DType dtype,
             const std::vector<int64_t>& extents) {
  type.setDtype(dtype);
  type.setScalar(extents.empty());
  auto shape = type.initShape(static_cast<unsigned>(extents.size()));
  for (unsigned i = 0; i < extents.size(); ++i) shape.set(i, extents[i]);
}

void AddMessage(SeedFolder& folder, const std::string& name, capnp::MessageBuilder& message) {
  const auto words = capnp::messageToFlatArray(message);
  const auto bytes = words.asChars();
  folder.Add("fragments", name, std::string(bytes.begin(), bytes.size()));
}

// f(`first`, `second`) -> (float64[?], float64[4])
void AddSuccess(SeedFolder& folder, const std::string& name, const std::vector<int64_t>& first,
                const std::vector<int64_t>& second) {
  capnp::MallocMessageBuilder message;
  auto answer = message.initRoot<wire::CompileAnswer>();
  answer.setCompiler("lockstep 0.1.0, LLVM 19");
  answer.setProcessor("x86-64");
  answer.setFeatures("+avx2");
  auto success = answer.initSuccess();
  success.setFunction("f");
  auto arguments = success.initArguments(2);
  SetType(arguments[0].initType(), wire::DType::FLOAT64, first);
  arguments[0].setUsesOffset(true);
  SetType(arguments[1].initType(), wire::DType::INT64, second);
  auto results = success.initResults(2);
  SetType(results[0].initType(), wire::DType::FLOAT64, {-1});
  results[0].setSizesKnown(true);
  SetType(results[1].initType(), wire::DType::FLOAT64, {4});
  success.setAbiVersion(LOCKSTEP_FRAGMENT_ABI_VERSION);
  const std::string object = "an object";
  success.setObject({reinterpret_cast<const kj::byte*>(object.data()), object.size()});
  AddMessage(folder, name, message);
}

}  // namespace

void AddFragmentSeeds(SeedFolder& folder) {
  using fragment::Combine;
  using fragment::Split;
  folder.Add("fragment_calls", "rows",
             fragment::EncodeCall(
                 {{{DType::kFloat64, {10, 4}, Split::kRows}, {DType::kInt64, {}, Split::kNone}},
                  {{Combine::kRows, Shape{10}}, {Combine::kAdd, Shape{4}}}}));
  folder.Add("fragment_calls", "placed",
             fragment::EncodeCall(
                 {{{DType::kFloat32,
                    {2, 6},
                    Split::kAsPlaced,
                    *plan::Layout::Make({2, 6}, DType::kFloat32, *plan::Mesh::Line({2, 0, 1}),
                                        {plan::Placement::Shard(1, {1, 0, 5})})}},
                  {{Combine::kNone, Shape{3}}, {Combine::kColumns, Shape{2, 6}}}}));
  AddSuccess(folder, "scalar", {-1, 4}, {});
  AddSuccess(folder, "scalars", {}, {});
  AddSuccess(folder, "matrix", {-1, 4}, {4, -1});
  AddSuccess(folder, "empty", {-1, 4}, {0});
  capnp::MallocMessageBuilder message;
  auto failure = message.initRoot<wire::CompileAnswer>().initFailure();
  failure.setCode(3);
  failure.setMessage("expected operation name in quotes");
  failure.setLine(3);
  failure.setColumn(10);
  failure.setOperation("arith.addf");
  AddMessage(folder, "failure", message);
}

}  // namespace lockstep::fuzz
