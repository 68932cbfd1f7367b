// The core's side of the CUDA plug-in: opening it, and saying why there is none.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "native/core/error.h"
#include "native/cuda/table.h"

namespace aegir::cuda {

// Opens the plug-in that lies beside this binary, once a process. It must come before anything asks libtorch
// for CUDA or seeds a generator: libtorch keeps the hooks that it finds then. Never throws.
void openPlugin();

struct Status {
  std::string plugin;  // its path, empty where it is not open
  std::string reason;  // why CUDA cannot be used, empty where it can
  std::vector<std::string> devices;
};
const Status& status();

// The open plug-in's functions. Throws ERR_DEVICE with the reason where there is none.
const Table& table();

// Throws what CUDA said, null being nothing: ERR_OUT_OF_MEMORY or ERR_DEVICE.
void checkCuda(const char* said);

// Runs one of the table's launches for the device of `on`. Throws as checkCuda does.
template <class Arguments>
void launch(Launch<Arguments> Table::*function, const at::Tensor& on, const Arguments& arguments) {
  checkCuda((table().*function)(static_cast<int32_t>(on.device().index()), &arguments));
}

}  // namespace aegir::cuda
