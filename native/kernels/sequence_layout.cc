#include "native/kernels/sequence_layout.h"

#include <ATen/ops/arange.h>

#include "native/core/error.h"

namespace aegir::kernels {
namespace {

void checkIntegerVector(const at::Tensor& tensor, const char* name) {
  check(tensor.scalar_type() == at::kLong, ErrorCode::Dtype, name, ": expected i64, got ",
        tensor.scalar_type());
  check(tensor.dim() == 1, ErrorCode::Shape, name, ": expected one dimension, got ", tensor.sizes());
}

// Everything but values.
void checkPacked(int64_t batch, const at::Tensor& lengths, const at::Tensor& cuSeqlens) {
  check(!lengths.defined(), ErrorCode::Argument, "lengths: give either lengths or cuSeqlens, not both");
  checkIntegerVector(cuSeqlens, "cuSeqlens");
  check(batch == 1, ErrorCode::Shape, "cuSeqlens: packed sequences need B = 1, got B = ", batch);
  check(cuSeqlens.numel() >= 1, ErrorCode::Shape, "cuSeqlens: expected (S+1) starts, got an empty tensor");
}

void checkLengths(int64_t batch, const at::Tensor& lengths) {
  checkIntegerVector(lengths, "lengths");
  check(lengths.numel() == batch, ErrorCode::Shape, "lengths: expected (B) with B = ", batch, ", got ",
        lengths.sizes());
}

SequenceLayout packedLayout(int64_t tokens, const at::Tensor& cuSeqlens) {
  const at::Tensor bounds = cuSeqlens.cpu().contiguous();
  const int64_t* bound = bounds.const_data_ptr<int64_t>();
  const int64_t count = bounds.numel() - 1;
  check(bound[0] == 0 && bound[count] == tokens, ErrorCode::Argument,
        "cuSeqlens: must run from 0 to T = ", tokens, ", got ", bound[0], " to ", bound[count]);
  SequenceLayout layout;
  for (int64_t s = 0; s < count; ++s) {
    check(bound[s + 1] >= bound[s], ErrorCode::Argument, "cuSeqlens: must not decrease, got ", bound[s],
          " before ", bound[s + 1], " at index ", s + 1);
    layout.start.push_back(bound[s]);
    layout.length.push_back(bound[s + 1] - bound[s]);
  }
  return layout;
}

}  // namespace

SequenceLayout sequenceLayout(int64_t batch, int64_t tokens, const at::Tensor& lengths,
                              const at::Tensor& cuSeqlens) {
  if (cuSeqlens.defined()) {
    checkPacked(batch, lengths, cuSeqlens);
    return packedLayout(tokens, cuSeqlens);
  }
  SequenceLayout layout;
  layout.length.assign(batch, tokens);
  if (lengths.defined()) {
    checkLengths(batch, lengths);
    const at::Tensor values = lengths.cpu().contiguous();
    const int64_t* length = values.const_data_ptr<int64_t>();
    for (int64_t s = 0; s < batch; ++s) {
      check(length[s] >= 0 && length[s] <= tokens, ErrorCode::Argument,
            "lengths: expected values from 0 to T = ", tokens, ", got ", length[s], " at index ", s);
      layout.length[s] = length[s];
      layout.coversEveryRow = layout.coversEveryRow && length[s] == tokens;
    }
  }
  for (int64_t s = 0; s < batch; ++s) layout.start.push_back(s * tokens);
  return layout;
}

int64_t sequenceCount(int64_t batch, int64_t tokens, const at::Tensor& lengths, const at::Tensor& cuSeqlens) {
  const at::Tensor& given = cuSeqlens.defined() ? cuSeqlens : lengths;
  if (!given.defined() || given.is_cpu()) return sequenceLayout(batch, tokens, lengths, cuSeqlens).size();
  if (cuSeqlens.defined()) {
    checkPacked(batch, lengths, cuSeqlens);
    return cuSeqlens.numel() - 1;
  }
  checkLengths(batch, lengths);
  return batch;
}

at::Tensor validPositions(int64_t batch, int64_t tokens, const at::Tensor& lengths) {
  const at::Tensor position = at::arange(tokens, at::kLong).unsqueeze(0);
  return lengths.defined() ? position.lt(lengths.cpu().unsqueeze(1))
                           : position.lt(tokens).expand({batch, tokens});
}

}  // namespace aegir::kernels
