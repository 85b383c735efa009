// A stand-in for the NVIDIA driver's libnvidia-ml.so.1, so that what doctor asks of it is
// tested where there is no GPU. The environment says what it answers.
#include <cstdio>
#include <cstdlib>

namespace {

int Number(const char* name, int otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoi(value);
}

struct Memory {
  unsigned long long total, free, used;
};

}  // namespace

extern "C" {

int nvmlInit_v2() { return Number("FAKE_NVML_ERROR", 0); }
int nvmlShutdown() { return 0; }

const char* nvmlErrorString(int error) {
  static char text[40];
  std::snprintf(text, sizeof(text), "stand-in error %d", error);
  return text;
}

int nvmlSystemGetDriverVersion(char* version, unsigned length) {
  std::snprintf(version, length, "590.55.55");
  return 0;
}

int nvmlSystemGetCudaDriverVersion(int* version) {
  *version = Number("FAKE_NVML_CUDA", 13010);
  return 0;
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = Number("FAKE_NVML_DEVICES", 2);
  return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = reinterpret_cast<void*>(static_cast<unsigned long>(index + 1));
  return 0;
}

int nvmlDeviceGetName(void* device, char* name, unsigned length) {
  std::snprintf(name, length, "Stand-in %lu", reinterpret_cast<unsigned long>(device) - 1);
  return 0;
}

int nvmlDeviceGetMemoryInfo(void*, Memory* memory) {
  *memory = {80ull << 30, 70ull << 30, 10ull << 30};
  return 0;
}

}  // extern "C"
