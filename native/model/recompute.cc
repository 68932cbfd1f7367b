#include "native/model/recompute.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "native/core/error.h"
#include "native/core/system_memory.h"

namespace aegir::model {
namespace {

thread_local std::optional<bool> asked;

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What a recomputed part needs besides the tensors that autograd keeps.
struct PartRecord : torch::CustomClassHolder {
  Part part;
  std::vector<int64_t> place;  // of each input among the defined ones; -1: undefined

  variable_list inputs(const variable_list& defined) const {
    variable_list all;
    for (const int64_t at : place) all.push_back(at < 0 ? at::Tensor() : defined[at]);
    return all;
  }
};

class Recomputed : public torch::autograd::Function<Recomputed> {
 public:
  static variable_list forward(AutogradContext* context, at::TensorList defined,
                               const c10::intrusive_ptr<PartRecord>& record) {
    context->save_for_backward(defined.vec());
    context->saved_data["part"] = c10::IValue::make_capsule(record);
    context->set_materialize_grads(false);
    return record->part(record->inputs(defined.vec()));
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    check(!at::GradMode::is_enabled(), ErrorCode::Argument,
          "recompute: differentiable once; a backward pass that builds a graph of its own is not supported");
    const auto capsule = context->saved_data["part"].toCapsule();
    const auto& record = static_cast<const PartRecord&>(*capsule);
    variable_list inputs;
    for (const auto& saved : context->get_saved_variables())
      inputs.push_back(saved.detach().requires_grad_(saved.requires_grad()));
    variable_list roots, rootGrads;
    {
      c10::AutoGradMode withGraph(true);
      const auto outputs = record.part(record.inputs(inputs));
      for (size_t i = 0; i < outputs.size(); ++i) {
        if (!outputs[i].requires_grad() || !grads[i].defined()) continue;
        roots.push_back(outputs[i]);
        rootGrads.push_back(grads[i]);
      }
    }
    if (!roots.empty()) torch::autograd::backward(roots, rootGrads);
    variable_list inputGrads;
    for (const auto& input : inputs) inputGrads.push_back(input.grad());
    inputGrads.emplace_back();  // of the record
    return inputGrads;
  }
};

}  // namespace

std::vector<at::Tensor> recomputed(const Part& part, const std::vector<at::Tensor>& inputs) {
  auto record = c10::make_intrusive<PartRecord>();
  record->part = part;
  std::vector<at::Tensor> defined;
  for (const auto& input : inputs) {
    record->place.push_back(input.defined() ? static_cast<int64_t>(defined.size()) : -1);
    if (input.defined()) defined.push_back(input);
  }
  return Recomputed::apply(at::TensorList(defined), std::move(record));
}

RecomputeMode::RecomputeMode(std::optional<bool> recompute) : outer_(std::exchange(asked, recompute)) {}

RecomputeMode::~RecomputeMode() { asked = outer_; }

bool RecomputeMode::recomputes(int64_t bytes, at::Device device) {
  if (asked) return *asked;
  return device.is_cpu() && bytes > memoryLimit() / 8;
}

}  // namespace aegir::model
