#include "native/cuda/loader.h"

#include <ATen/Version.h>
#include <dlfcn.h>
#include <torch/version.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <string_view>

namespace aegir::cuda {
namespace {

struct Plugin {
  const Table* table = nullptr;
  Status status;
};

Plugin& plugin() {
  static Plugin instance{nullptr, {"", "the CUDA plug-in was not asked for", {}}};
  return instance;
}

// The directory of the library or program in which `symbol` lies.
std::string directoryOf(const void* symbol) {
  Dl_info found;
  if (dladdr(symbol, &found) == 0 || found.dli_fname == nullptr) return ".";
  char* resolved = realpath(found.dli_fname, nullptr);
  const std::string file = resolved != nullptr ? resolved : found.dli_fname;
  std::free(resolved);
  const size_t slash = file.rfind('/');
  return slash == std::string::npos ? "." : file.substr(0, slash);
}

bool exists(const std::string& file) { return access(file.c_str(), R_OK) == 0; }

std::string pluginPath() {
  const char* named = std::getenv("AEGIR_CUDA_PLUGIN");
  if (named != nullptr && *named != '\0') return named;
  return directoryOf(reinterpret_cast<const void*>(&openPlugin)) + "/aegir_cuda.so";
}

// Empty where the libtorch in use was built with CUDA.
std::string withoutCuda() {
  const std::string directory = directoryOf(reinterpret_cast<const void*>(&at::show_config));
  if (exists(directory + "/libtorch_cuda.so")) return "";
  return "no CUDA build of libtorch: " + directory + " has no libtorch_cuda.so";
}

std::string unfit(const Table& table) {
  if (table.abi != abi) {
    return "the plug-in has ABI " + std::to_string(table.abi) + ", expected " + std::to_string(abi);
  }
  const std::string version = table.torchVersion;
  if (version == TORCH_VERSION) return "";
  return "the plug-in was built for torch " + version + ", the addon for " + TORCH_VERSION;
}

// Fills in the table, or returns why it cannot.
std::string openTable(const std::string& path, const Table*& table) {
  const std::string cpuOnly = withoutCuda();
  if (!exists(path)) {
    return cpuOnly.empty() ? "no plug-in: " + path + " is not there; building it takes nvcc" : cpuOnly;
  }
  // Never closed: libtorch's CUDA side registers itself for good.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const std::string said = dlerror();
    return cpuOnly.empty() ? "the plug-in does not load: " + said : cpuOnly;
  }
  const auto getTable = reinterpret_cast<AegirCudaTable*>(dlsym(library, "aegir_cuda_table"));
  if (getTable == nullptr) return path + " is no plug-in: it has no aegir_cuda_table";
  const Table* found = getTable();
  std::string reason = unfit(*found);
  if (reason.empty()) table = found;
  return reason;
}

void open(Plugin& to) {
  const std::string path = pluginPath();
  to.status.reason = openTable(path, to.table);
  if (to.table == nullptr) return;
  to.status.plugin = path;
  if (const char* why = to.table->unusable()) {
    to.status.reason = std::string("no device: ") + why;
    return;
  }
  for (int32_t i = 0; i < to.table->deviceCount(); ++i) {
    to.status.devices.emplace_back(to.table->deviceName(i));
  }
}

}  // namespace

void openPlugin() {
  static std::once_flag once;
  std::call_once(once, [] { open(plugin()); });
}

const Status& status() { return plugin().status; }

const Table& table() {
  check(plugin().table != nullptr, ErrorCode::Device, "CUDA cannot be used: ", status().reason);
  return *plugin().table;
}

void checkCuda(const char* said) {
  if (said == nullptr) return;
  const bool memory = std::string_view(said).find("out of memory") != std::string_view::npos;
  fail(memory ? ErrorCode::OutOfMemory : ErrorCode::Device, "CUDA: ", said);
}

}  // namespace aegir::cuda
