#include "tests/chaos/clients.h"

#include <future>
#include <memory>
#include <vector>

#include "tests/chaos/client.h"
#include "tests/chaos/faults.h"
#include "tests/integration/wire_client.h"
#include "tests/support/tcp_proxy.h"

namespace lockstep::chaos {
namespace {

// Opens a session, makes a tensor, and is gone without freeing it.
void Vanish(const ControllerAddress& controller) {
  testing::WireClient client(controller);
  if (!client.Open().ok()) return;
  control::BatchWriter writer;
  (void)writer.Add([](wire::Command::Builder command) {
    auto empty = command.initEmpty();
    empty.initShape(1).set(0, 1 << 20);
    empty.setDtype(wire::DType::UINT8);
    empty.setResult(RegisterId{0, 1}.Packed());
  });
  client.SendBatch(client.session(), writer.Take());
}

}  // namespace

Status RunClients(const Plan& plan, const ControllerAddress& controller,
                  const std::function<Status()>& strike) {
  support::TcpProxy wire(controller.endpoint);
  std::promise<void> repaired;
  const std::shared_future<void> is_repaired = repaired.get_future().share();
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < plan.sessions; ++i) {
    ClientOptions options;
    options.controller = controller;
    options.name = "chaos " + std::to_string(i);
    options.seed = plan.seed * 100 + static_cast<uint64_t>(i);
    options.longest_call = plan.LongestCall();
    if (HitsTheWire(plan.fault) && i == 0) options.wire = &wire;
    options.copies = plan.copies && i == 0;
    if (plan.hosts > 0) options.repaired = is_repaired;
    LOCKSTEP_ASSIGN_OR_RETURN(auto client, Client::Start(std::move(options)));
    clients.push_back(std::move(client));
  }
  for (size_t i = 0; i < clients.size(); ++i) {
    const bool concerned = i == 0 || HitsAll(plan.fault);
    clients[i]->Run([&plan, concerned](Client& client) {
      return concerned ? RunFault(client, plan) : client.RunToTheEnd(2 * plan.steps);
    });
  }
  if (plan.fault == Fault::kVanish) Vanish(controller);
  Status status;
  if (HitsAll(plan.fault)) status = strike();
  repaired.set_value();
  for (size_t i = 0; i < clients.size(); ++i) {
    const Status result = clients[i]->Join();
    const std::string who = "session " + std::to_string(i);
    if (!result.ok()) status.Update(Annotate(result, who));
    const Status closed = clients[i]->Timed([&] { return clients[i]->session.Close(); });
    // One that has lost a worker for good says so.
    if (!LosesForGood(plan.fault)) status.Update(Annotate(closed, who));
    if (!clients[i]->violation.ok()) status.Update(Annotate(clients[i]->violation, who));
  }
  return status;
}

}  // namespace lockstep::chaos
