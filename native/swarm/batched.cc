#include "native/swarm/batched.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include "native/core/error.h"

namespace aegir {
namespace {

// A specialist's tokens among those of all.
struct Member {
  model::PackedInput input;
  model::AegirState after;
  int64_t firstRow, firstSequence;
};

}  // namespace

BatchedSpecialists::BatchedSpecialists(std::vector<std::shared_ptr<model::Model>> models)
    : models_(std::move(models)), blocks_(models_) {}

std::vector<std::optional<SpecialistSays>> BatchedSpecialists::forward(
    const std::vector<std::optional<model::ModelInput>>& inputs) const {
  check(inputs.size() == models_.size(), ErrorCode::Argument, "inputs: expected ", models_.size(),
        ", one a specialist, got ", inputs.size());
  kernels::Groups groups{{0}, {0}, {}};
  std::vector<std::optional<Member>> members(inputs.size());
  std::vector<at::Tensor> embedded, ends;
  for (size_t g = 0; g < inputs.size(); ++g) {
    int64_t row = groups.firstRow.back(), sequence = groups.firstSequence.back();
    if (inputs[g]) {
      auto& member = members[g].emplace(
          Member{models_[g]->pack(*inputs[g]), model::AegirState(models_[g]->config()), row, sequence});
      const auto& sequences = member.input.packing.sequences;
      embedded.push_back(models_[g]->embed(member.input, member.after));
      ends.push_back(sequences.cuSeqlens.narrow(0, 1, sequences.count) + row);
      row += sequences.tokens;
      sequence += sequences.count;
    }
    groups.firstRow.push_back(row);
    groups.firstSequence.push_back(sequence);
  }
  check(!embedded.empty(), ErrorCode::Argument, "inputs: expected one at least");
  ends.insert(ends.begin(), at::zeros({1}, ends[0].options()));
  groups.cuSeqlens = at::cat(ends);
  const auto output = blocks_.forward(at::cat(embedded), groups);

  std::vector<std::optional<SpecialistSays>> says(inputs.size());
  for (size_t g = 0; g < inputs.size(); ++g) {
    if (!members[g]) continue;
    auto& [input, after, firstRow, firstSequence] = *members[g];
    const auto& sequences = input.packing.sequences;
    const auto hidden = output.hidden.narrow(0, firstRow, sequences.tokens);
    auto own = models_[g]->finish(input, hidden, std::move(after));
    auto& said = says[g].emplace(SpecialistSays{own.logits, own.pooled, {}});
    for (size_t i = model::firstInnerLayer(*models_[g]->config()); i < output.attKv.size(); ++i) {
      said.attKv.push_back(output.attKv[i].narrow(0, firstSequence, sequences.count));
    }
  }
  return says;
}

}  // namespace aegir
