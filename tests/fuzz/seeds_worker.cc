// What a worker takes from its controller: envelopes, and the commands of batches.
#include <vector>

#include "runtime/base/version.h"
#include "runtime/control/batch.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/plain_call.h"
#include "runtime/control/session_record.h"
#include "runtime/control/value_codec.h"
#include "runtime/plan/plan_key.h"
#include "runtime/plan/program.h"
#include "schemas/control.capnp.h"
#include "tests/fuzz/seeds.h"

namespace lockstep::fuzz {
namespace {

// As in WorkerParts.
constexpr uint32_t kSeedSession = 5;

using Command = wire::Command::Builder;

uint64_t Register(uint32_t index) { return RegisterId{index, 1}.Packed(); }

template <typename Fill>
control::Frame Body(Fill fill) {
  return control::OneCommand(fill);
}

// Adds one command as a record, and returns it.
template <typename Fill>
std::string AddCommand(SeedFolder& folder, const std::string& name, Fill fill, uint8_t sender = 0) {
  const std::string record = RecordOf(sender, {Body(fill)});
  folder.Add("batch", name, "\1" + record);
  return record;
}

std::string AddCall(SeedFolder& folder, const std::string& name, const std::string& function,
                    const std::vector<Value>& args) {
  const std::string get = RecordOf(0, {Body([&](Command command) {
                                     auto get = command.initGetFunction();
                                     get.setName(function);
                                     get.setResult(Register(40));
                                   })});
  const std::string call = RecordOf(0, {Body([&](Command command) {
                                      auto call = command.initCall();
                                      call.setFunction(Register(40));
                                      call.setResult(Register(41));
                                      auto list = call.initArgs(static_cast<unsigned>(args.size()));
                                      for (unsigned i = 0; i < list.size(); ++i) {
                                        control::WriteValue(list[i], args[i]);
                                      }
                                    })});
  folder.Add("batch", name, "\1" + get + call);
  return get + call;
}

// A call as clients write most of them, with each kind of argument that such a one can have.
control::Frame PlainCall() {
  using control::PlainCallWriter;
  const std::string_view text = "a text of more than a word";
  const Shape shape({2, 3});
  const size_t payload =
      PlainCallWriter::TextWords(text.size()) + PlainCallWriter::ShapeWords(shape.ndim());
  const size_t words = PlainCallWriter::Words(8, payload);
  control::BatchWriter writer;
  (void)writer.AddPlainCall(words, [&](uint64_t* at) {
    PlainCallWriter call(at, words, RegisterId{40, 1}, RegisterId{41, 1}, 8);
    call.AddNone();
    call.AddBool(true);
    call.AddInt64(7);
    call.AddFloat64(0.5);
    call.AddText(text);
    call.AddDType(DType::kFloat32);
    call.AddRegister(RegisterId{40, 1});
    call.AddShape(shape);
  });
  return writer.Take();
}

// A program of every kind of operation, bound and executed: it copies its input, and moves the
// copy.
void AddPlan(SeedFolder& folder) {
  const plan::Mesh mesh = *plan::Mesh::Line({0});
  const auto layout_of = [&](plan::Placement placement) {
    return *plan::Layout::Make({3, 2}, DType::kFloat32, mesh, {placement});
  };
  plan::ProgramBuilder program;
  const plan::ValueId x = program.Input("x", layout_of(plan::Placement::Shard(0)));
  const plan::ValueId y = program.Make(layout_of(plan::Placement::Shard(0)));
  program.Call("lockstep.copy", {plan::Read(x), plan::Write(y)});
  program.Output("y", y);
  program.Output("z", program.Reshard(y, layout_of(plan::Placement::Partial(Reduction::kSum))));
  plan::ValueId moved = program.As(program.Copy(y), layout_of(plan::Placement::Shard(1)));
  moved = program.AllGather(program.AllToAll(moved, "x", 0), "x");
  moved = program.ReduceScatter(program.AllReduce(moved, "x", Reduction::kMax), "x", 1,
                                Reduction::kSum);
  program.Output("moved", program.Broadcast(moved, "x", 0));
  const std::string get = RecordOf(0, {Body([&](Command command) {
                                     auto get = command.initGetFunction();
                                     get.setName("lockstep.copy");
                                     get.setResult(Register(40));
                                   })});
  const std::string empty = RecordOf(0, {Body([&](Command command) {
                                       auto empty = command.initEmpty();
                                       auto shape = empty.initShape(2);
                                       shape.set(0, 3);
                                       shape.set(1, 2);
                                       empty.setDtype(wire::DType::FLOAT32);
                                       empty.setResult(Register(42));
                                     })});
  const plan::EncodedProgram encoded = plan::Encode(*program.Build());
  const auto bind = [&](bool is_known, bool is_fragment = false) {
    return RecordOf(
        0, {Body([&](Command command) {
          auto bind = command.initBind();
          bind.setPlan(Register(43));
          auto binding = bind.initBinding();
          if (is_known) {
            binding.initKnown().setHigh(encoded.key.high);
            binding.getKnown().setLow(encoded.key.low);
          } else {
            const auto bytes = encoded.bytes();
            binding.setProgram({reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()});
          }
          binding.initFunctions(1).set(0, is_fragment ? 0 : Register(40));
          if (is_fragment) binding.initFragments(1)[0].setHigh(1);
          binding.initInputs(1).set(0, Register(42));
          auto outputs = binding.initOutputs(3);
          outputs.set(0, Register(44));
          outputs.set(1, Register(45));
          outputs.set(2, Register(46));
        })});
  };
  const std::string execute =
      RecordOf(0, {Body([&](Command command) { command.initExecute().setBound(Register(43)); })});
  folder.Add("batch", "plan", "\1" + get + empty + bind(false) + execute + execute);
  folder.Add("batch", "plan_of_a_fragment", "\1" + empty + bind(false, true) + execute);
  folder.Add("batch", "plan_by_its_key", "\1" + get + empty + bind(false) + bind(true) + execute);
}

void AddBatchSeeds(SeedFolder& folder) {
  AddPlan(folder);
  // The registers of WorkerParts that hold tensors begin about here.
  constexpr uint32_t kTensor = 27;
  std::string all = AddCall(folder, "call_full", "lockstep.full",
                            {Value(Shape{2, 3}), Value(1.5), Value(DType::kFloat32)});
  all += AddCall(folder, "call_arange", "lockstep.arange",
                 {Value(0), Value(10), Value(2), Value(DType::kInt64)});
  all += AddCall(folder, "call_reshape", "lockstep.reshape",
                 {Value(RegisterId{kTensor + 2, 1}), Value(Shape{2, 2})});
  all += AddCall(folder, "call_identity_of_list", "lockstep.identity",
                 {Value(Value::List{Value(1), Value(RegisterId{kTensor, 1}), Value("a")})});
  all += AddCall(folder, "call_identity_of_map", "lockstep.identity",
                 {Value(Value::Map{{"a", Value(HostTensor{DType::kInt8, Shape{2}, "ab"})}})});
  all += AddCall(folder, "call_fail", "lockstep.fail", {Value("on purpose")});
  all += AddCommand(folder, "sync", [](Command command) { command.setSync(); });
  all += AddCommand(folder, "empty", [](Command command) {
    auto empty = command.initEmpty();
    empty.setDtype(wire::DType::FLOAT16);
    auto dims = empty.initShape(2);
    dims.set(0, 3);
    dims.set(1, 4);
    empty.setResult(Register(50));
  });
  for (int kind = 0; kind <= static_cast<int>(wire::CollectiveKind::RECEIVE_FROM_PREVIOUS_GROUP);
       ++kind) {
    AddCommand(folder, "collective_" + std::to_string(kind), [&](Command command) {
      auto collective = command.initCollective();
      collective.setKind(static_cast<wire::CollectiveKind>(kind));
      collective.setSource(Register(kTensor + 2));
      collective.setDestination(Register(60));
      collective.setMakeDestination(true);
      collective.setInGroup(kind % 2 == 0);
    });
  }
  AddCommand(folder, "collective_of_team", [&](Command command) {
    auto collective = command.initCollective();
    collective.setSource(Register(kTensor + 3));
    collective.setDestination(Register(kTensor + 3));
    collective.initTeam(1).set(0, 0);
  });
  AddCommand(folder, "declare_layout", [](Command command) {
    auto declare = command.initDeclareLayout();
    declare.setTensor(Register(kTensor + 2));
    auto layout = declare.initLayout();
    layout.initShape(1).set(0, 3);
    auto axis = layout.initMesh().initAxes(1)[0];
    axis.setName("x");
    axis.setSize(1);
    layout.getMesh().initRanks(1);
    layout.initPlacements(1)[0].setShard(0);
  });
  AddCommand(folder, "find_layout",
             [](Command command) { command.initFindLayout().setTensor(Register(kTensor + 2)); });
  for (const bool by_extents : {false, true}) {
    AddCommand(folder, by_extents ? "reshard_by_extents" : "reshard", [&](Command command) {
      auto reshard = command.initReshard();
      reshard.setSource(Register(kTensor + 2));
      reshard.setResult(Register(by_extents ? 61 : 60));
      auto layouts = reshard.initLayouts();
      for (auto layout : {layouts.initFrom(), layouts.initTo()}) {
        auto shape = layout.initShape(2);
        shape.set(0, 3);
        shape.set(1, 2);
        auto axis = layout.initMesh().initAxes(1)[0];
        axis.setName("x");
        axis.setSize(1);
        layout.getMesh().initRanks(1);
        layout.initPlacements(1)[0].setShard(0);
      }
      layouts.getTo().getPlacements()[0].setPartial(0);
      if (!by_extents) return;
      layouts.getFrom().getPlacements()[0].initShardByExtents().initExtents(1).set(0, 3);
    });
  }
  all += AddCommand(folder, "fetch", [](Command command) {
    command.initFetch().setRegister(Register(kTensor + 3));
  });
  all += AddCommand(folder, "store", [](Command command) {
    auto store = command.initStore();
    store.setRegister(Register(51));
    control::WriteValue(store.initValue(), Value(Value::List{Value(2), Value(Shape{1})}));
  });
  all += AddCommand(folder, "locate", [](Command command) {
    auto locate = command.initLocate();
    locate.setRegister(Register(kTensor + 2));
    locate.setRenew(true);
    locate.setBytes(wire::BytesWish::ALWAYS);
  });
  for (const bool is_new : {true, false}) {
    all += AddCommand(folder, is_new ? "lend_new" : "lend", [&](Command command) {
      auto lend = command.initLend();
      lend.setRegister(Register(is_new ? 62 : kTensor + 2));
      lend.setIsNew(is_new);
      if (!is_new) lend.setLoan(Register(63));
      lend.setDtype(wire::DType::FLOAT32);
      lend.initShape(1).set(0, 3);
    });
  }
  all += AddCommand(folder, "end_loan", [](Command command) { command.setEndLoan(Register(63)); });
  all += AddCommand(folder, "release", [](Command command) {
    auto registers = command.initRelease().initRegisters(2);
    registers.set(0, Register(kTensor));
    registers.set(1, Register(1));
  });
  AddCommand(folder, "load_module",
             [](Command command) { command.initLoadModule().setPath("/nonexistent/module.so"); });
  AddCommand(
      folder, "of_controller_close",
      [](Command command) { command.initCloseSession().setClientLost(true); }, 1);
  AddCommand(
      folder, "of_controller_reset", [](Command command) { command.initReset().setGeneration(1); },
      1);
  AddCommand(
      folder, "of_controller_name",
      [](Command command) {
        auto name = command.initNameRegister();
        name.setName("weights");
        name.setRegister(Register(kTensor));
      },
      1);
  AddCommand(
      folder, "of_controller_adopt",
      [](Command command) {
        auto record = command.initAdopt();
        record.setSession(kSeedSession);
        record.setClientNumber(2);
        auto names = record.initNames(1);
        names[0].setName("weights");
        names[0].setRegister(Register(kTensor));
      },
      1);
  folder.Add("batch", "many_records", "\1" + all);
  control::BatchWriter writer;
  (void)writer.Add([](Command command) { command.setSync(); });
  (void)writer.Add([](Command command) {
    control::WriteValue(command.initCall().initArgs(1)[0], Value("text"));
  });
  folder.Add("batch", "body_as_it_travels", std::string(1, '\0') + BytesOf(writer.Take()));
  folder.Add("batch", "plain_call", std::string(1, '\0') + BytesOf(PlainCall()));
}

void WriteWelcome(wire::Envelope::Builder envelope, uint64_t epoch, uint32_t session) {
  envelope.setEpoch(epoch);
  auto welcome = envelope.initWelcome();
  welcome.setVersion(kProtocolVersion);
  welcome.setLivenessEndpoint("inproc://liveness");
  welcome.setHeartbeatMillis(500);
  welcome.setFlowWindowBytes(1 << 20);
  welcome.setCollectiveTimeoutMillis(1000);
  welcome.setCluster("cluster");
  welcome.setCommunicator("auto");
  control::SessionRecord record;
  record.id = SessionId(session);
  record.token = "token";
  record.name = "client";
  record.names = {{"weights", {RegisterId{1, 1}, 1}}};
  control::WriteSessionRecord(welcome.initSessions(1)[0], record);
}

control::Frame Arenas(unsigned workers) {
  return control::EncodeMessage<wire::Arenas>([&](wire::Arenas::Builder arenas) {
    auto segments = arenas.initSegments(workers);
    for (unsigned i = 0; i < workers; ++i) segments.set(i, "lockstep-segment");
  });
}

std::string Batch(uint64_t first_command, const control::Frame& body) {
  return Say<wire::Envelope>(
      0,
      [&](wire::Envelope::Builder envelope) {
        envelope.setSession(kSeedSession);
        envelope.setFirstCommand(first_command);
        envelope.setRequest(1);
        envelope.setBatch();
      },
      body);
}

void AddEnvelopeSeeds(SeedFolder& folder) {
  const auto welcome = [](uint64_t epoch, unsigned workers, uint32_t session) {
    return Say<wire::Envelope>(
        0, [&](wire::Envelope::Builder envelope) { WriteWelcome(envelope, epoch, session); },
        Arenas(workers));
  };
  const std::string sync = Batch(1, Body([](Command command) { command.setSync(); }));
  const std::string send = Batch(1, Body([](Command command) {
                                   auto collective = command.initCollective();
                                   collective.setKind(wire::CollectiveKind::SEND_TO_NEXT_GROUP);
                                   collective.setSource(Register(27));
                                 }));
  const std::string open = Batch(0, Body([](Command command) {
                                   control::SessionRecord record;
                                   record.id = SessionId(kSeedSession);
                                   control::WriteSessionRecord(command.initOpenSession(), record);
                                 }));
  const std::string close = Batch(0, Body([](Command command) { command.initCloseSession(); }));
  folder.Add("envelope", "welcome", welcome(7, 1, kSeedSession));
  folder.Add("envelope", "finding_timeout_beyond_all_clocks",
             Say<wire::Envelope>(
                 0,
                 [](wire::Envelope::Builder envelope) {
                   WriteWelcome(envelope, 7, kSeedSession);
                   envelope.getWelcome().setCollectiveTimeoutMillis(~uint64_t{0});
                 },
                 Arenas(1)));
  folder.Add("envelope", "finding_session_without_groups",
             Say<wire::Envelope>(
                 0,
                 [](wire::Envelope::Builder envelope) {
                   WriteWelcome(envelope, 7, 6);
                   auto session = envelope.getWelcome().getSessions()[0];
                   session.setSession(6);
                   session.setNumGroups(0);
                 },
                 Arenas(1)) +
                 Say<wire::Envelope>(
                     0,
                     [](wire::Envelope::Builder envelope) {
                       envelope.setSession(6);
                       envelope.setFirstCommand(1);
                       envelope.setBatch();
                     },
                     Body([](Command command) {
                       command.initCollective().setKind(wire::CollectiveKind::SEND_TO_NEXT_GROUP);
                     })));
  folder.Add("envelope", "welcome_among_three", welcome(8, 3, 6));
  folder.Add("envelope", "batch", sync);
  folder.Add("envelope", "welcome_then_batch", welcome(7, 1, kSeedSession) + send + sync);
  folder.Add("envelope", "close_open_batch", close + open + send + sync);
  folder.Add("envelope", "refused", Say<wire::Envelope>(0, [](wire::Envelope::Builder envelope) {
               control::WriteError(envelope.initRefused().initError(),
                                   control::ErrorOf(InvalidArgument("no")));
             }));
  folder.Add("envelope", "shutdown", Say<wire::Envelope>(0, [](wire::Envelope::Builder envelope) {
               envelope.setShutdown("the end");
             }));
  folder.Add("envelope", "waiting", Say<wire::Envelope>(0, [](wire::Envelope::Builder envelope) {
               envelope.setWaiting();
             }));
  folder.Add("envelope", "out_of_reach",
             Say<wire::Envelope>(0, [](wire::Envelope::Builder envelope) {
               envelope.setOutOfReach("tcp://10.0.0.1:1 does not answer");
             }));
}

}  // namespace

void AddWorkerSeeds(SeedFolder& folder) {
  AddBatchSeeds(folder);
  AddEnvelopeSeeds(folder);
}

}  // namespace lockstep::fuzz
