#include "native/kernels/wkv7.h"

namespace aegir::kernels {

std::tuple<at::Tensor, at::Tensor> wkv7(const Wkv7Input& input) { return wkv7Reference(input); }

}  // namespace aegir::kernels
