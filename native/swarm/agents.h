// What the fusion modules share: which rows of a batch activated which specialist.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <vector>

#include "native/core/error.h"

namespace aegir {

// Rows must be a 1-d i64 tensor of ascending batch rows, and each specialist may come once: duplicates would
// count twice. Agent: a struct with `agent` and `rows`.
template <class Agent>
void checkAgents(const char* name, int64_t batch, int64_t numAgents, const std::vector<Agent>& agents) {
  std::vector<bool> seen(numAgents, false);
  for (const auto& agent : agents) {
    check(agent.agent >= 0 && agent.agent < numAgents, ErrorCode::Argument, name, ": agent ", agent.agent,
          " is outside 0..", numAgents - 1);
    check(!seen[agent.agent], ErrorCode::Argument, name, ": agent ", agent.agent, " is given twice");
    seen[agent.agent] = true;
    check(agent.rows.dim() == 1 && agent.rows.scalar_type() == at::kLong, ErrorCode::Dtype, name,
          ": rows of agent ", agent.agent, " expected a 1-d i64 tensor, got ", agent.rows.scalar_type(), " ",
          agent.rows.sizes());
    const auto host = agent.rows.cpu().contiguous();
    const auto* rows = host.template data_ptr<int64_t>();
    for (int64_t i = 0; i < host.numel(); ++i) {
      const int64_t previous = i > 0 ? rows[i - 1] : -1;
      check(rows[i] > previous && rows[i] < batch, ErrorCode::Argument, name, ": rows of agent ", agent.agent,
            " must ascend within 0..", batch - 1, ", got ", rows[i], " after ", previous);
    }
  }
}

// (B) bool on the CPU: rows with at least one active agent.
template <class Agent>
at::Tensor activeRows(int64_t batch, const std::vector<Agent>& agents) {
  auto active = at::zeros({batch}, at::kBool);
  for (const auto& agent : agents) active.index_fill_(0, agent.rows.cpu(), 1);
  return active;
}

}  // namespace aegir
