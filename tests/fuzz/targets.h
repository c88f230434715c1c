// The harnesses, each of which reads bytes from outside as one kind of input; see README.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::fuzz {

// Reads `size` bytes at `data`, or refuses them; anything else ends the process. Not thread-safe.
using Harness = void (*)(const uint8_t* data, size_t size);

void ReadArgument(const uint8_t* data, size_t size);
void ReadAssignments(const uint8_t* data, size_t size);
void ExecuteBatches(const uint8_t* data, size_t size);
void TakeBulkReplies(const uint8_t* data, size_t size);
void TakeBulkRequests(const uint8_t* data, size_t size);
void TakeClientMessages(const uint8_t* data, size_t size);
void ReadConfiguration(const uint8_t* data, size_t size);
void TakeLivenessOfWorkers(const uint8_t* data, size_t size);
void TakeControllerMessages(const uint8_t* data, size_t size);
void TakeEnvelopes(const uint8_t* data, size_t size);
void ReadFragmentCall(const uint8_t* data, size_t size);
void ReadFragments(const uint8_t* data, size_t size);
void ReadHttp(const uint8_t* data, size_t size);
void ReadKernels(const uint8_t* data, size_t size);
void ReadNpyFile(const uint8_t* data, size_t size);
void LowerPlans(const uint8_t* data, size_t size);
void ReadProgram(const uint8_t* data, size_t size);
void TakeAnswersByRing(const uint8_t* data, size_t size);
void TakeTreeMessages(const uint8_t* data, size_t size);
void ReadValues(const uint8_t* data, size_t size);
void TakeLivenessOfController(const uint8_t* data, size_t size);
void TakeWorkerMessages(const uint8_t* data, size_t size);

// A harness by its name, which is its corpus' folder.
struct Target {
  std::string name;
  Harness harness;
};
const std::vector<Target>& Targets();

}  // namespace lockstep::fuzz
