#include "native/core/system_memory.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace aegir {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// The number in a control group's file; "max" and a file that is not there are no limit.
int64_t groupLimit(const char* path) {
  std::ifstream file(path);
  int64_t bytes = 0;
  return file >> bytes ? bytes : kUnlimited;
}

int64_t machineMemory() {
  struct sysinfo info {};
  if (sysinfo(&info) != 0) return kUnlimited;
  return static_cast<int64_t>(info.totalram + info.totalswap) * static_cast<int64_t>(info.mem_unit);
}

}  // namespace

int64_t memoryLimit() {
  static const int64_t limit = std::min({machineMemory(), groupLimit("/sys/fs/cgroup/memory.max"),
                                         groupLimit("/sys/fs/cgroup/memory/memory.limit_in_bytes")});
  return limit;
}

int64_t availableMemory() {
  std::ifstream file("/proc/meminfo");
  int64_t kib = 0;
  bool found = false;
  for (std::string name, rest; file >> name;) {
    int64_t value = 0;
    file >> value;
    std::getline(file, rest);
    if (name != "MemAvailable:" && name != "SwapFree:") continue;
    kib += value;
    found = true;
  }
  return found ? kib << 10 : kUnlimited;
}

}  // namespace aegir
