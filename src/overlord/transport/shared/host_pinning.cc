#include "overlord/transport/shared/host_pinning.h"

#include <dlfcn.h>

#include <string>

namespace overlord::transport {
namespace {

// The few declarations of the driver's interface that are needed here, which is stable C.
using DriverResult = int;
using Device = int;
using Context = void*;
constexpr DriverResult kSuccess = 0;
constexpr DriverResult kNotSupported = 801;
constexpr unsigned kPortable = 0x01;  // pinned for every context of the process
constexpr unsigned kReadOnly = 0x08;  // the device only reads; so maps that cannot be written do

struct Driver {
  DriverResult (*init)(unsigned) = nullptr;
  DriverResult (*get_device)(Device*, int) = nullptr;
  DriverResult (*retain)(Context*, Device) = nullptr;
  DriverResult (*release)(Device) = nullptr;
  DriverResult (*push)(Context) = nullptr;
  DriverResult (*pop)(Context*) = nullptr;
  DriverResult (*register_host)(void*, size_t, unsigned) = nullptr;
  DriverResult (*unregister_host)(void*) = nullptr;
  DriverResult (*error_text)(DriverResult, const char**) = nullptr;
};

template <typename Function>
bool find(void* library, const char* name, Function* out) {
  *out = reinterpret_cast<Function>(dlsym(library, name));
  return *out != nullptr;
}

Result<Driver> open_driver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);  // stays for the process's life
  if (library == nullptr) {
    const char* why = dlerror();
    return Status(Code::kUnavailable, std::string("pinned memory needs CUDA's driver: ") +
                                          (why == nullptr ? "libcuda.so.1 is not there" : why));
  }
  Driver driver;
  const bool whole = find(library, "cuInit", &driver.init) &&
                     find(library, "cuDeviceGet", &driver.get_device) &&
                     find(library, "cuDevicePrimaryCtxRetain", &driver.retain) &&
                     find(library, "cuDevicePrimaryCtxRelease_v2", &driver.release) &&
                     find(library, "cuCtxPushCurrent_v2", &driver.push) &&
                     find(library, "cuCtxPopCurrent_v2", &driver.pop) &&
                     find(library, "cuMemHostRegister_v2", &driver.register_host) &&
                     find(library, "cuMemHostUnregister", &driver.unregister_host) &&
                     find(library, "cuGetErrorString", &driver.error_text);
  if (!whole) {
    return Status(Code::kUnavailable, "pinned memory needs a driver of CUDA 11.1 or newer");
  }
  return driver;
}

class CudaPinning final : public HostPinning {
 public:
  CudaPinning(const Driver& driver, Device device, Context context)
      : driver_(driver), device_(device), context_(context) {}
  ~CudaPinning() override { driver_.release(device_); }

  Status pin(const void* data, size_t size_bytes) override {
    const Current current(*this);
    void* address = const_cast<void*>(data);
    DriverResult result = driver_.register_host(address, size_bytes, kPortable | kReadOnly);
    // Not every host can register what it may not write; some that cannot take the flag can do
    // without it.
    if (result == kNotSupported) result = driver_.register_host(address, size_bytes, kPortable);
    if (result == kSuccess) return {};
    return {Code::kResource, "CUDA cannot pin " + std::to_string(size_bytes) +
                                 " bytes: " + text_of(result) + "; train without pin=True"};
  }

  void unpin(const void* data) override {
    const Current current(*this);
    driver_.unregister_host(const_cast<void*>(data));
  }

 private:
  // The calling thread has the context for as long as this lives, and its own one afterwards.
  struct Current {
    explicit Current(const CudaPinning& pinning) : driver(pinning.driver_) {
      driver.push(pinning.context_);
    }
    ~Current() {
      Context ours = nullptr;
      driver.pop(&ours);
    }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
    const Driver& driver;
  };

  std::string text_of(DriverResult result) const {
    const char* text = nullptr;
    driver_.error_text(result, &text);
    return "error " + std::to_string(result) + (text == nullptr ? "" : std::string(", ") + text);
  }

  const Driver driver_;
  const Device device_;
  const Context context_;
};

}  // namespace

Result<std::shared_ptr<HostPinning>> cuda_pinning(int device) {
  OVERLORD_TRY(const Driver driver, open_driver());
  const auto refused = [&](const char* what, DriverResult result) {
    const char* text = nullptr;
    driver.error_text(result, &text);
    return Status(Code::kUnavailable, std::string("pinned memory: CUDA cannot ") + what + ": " +
                                          (text == nullptr ? std::to_string(result) : text));
  };
  if (const DriverResult result = driver.init(0); result != kSuccess) {
    return refused("start", result);
  }
  Device chosen = 0;
  if (const DriverResult result = driver.get_device(&chosen, device); result != kSuccess) {
    return refused(("use device " + std::to_string(device)).c_str(), result);
  }
  Context context = nullptr;
  if (const DriverResult result = driver.retain(&context, chosen); result != kSuccess) {
    return refused("make a context", result);
  }
  return std::shared_ptr<HostPinning>(std::make_shared<CudaPinning>(driver, chosen, context));
}

}  // namespace overlord::transport
