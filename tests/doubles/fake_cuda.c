/* The fake device (fake_device.h) as the library that dlprof loads for --device cuda. FAKE_DEVICES
 * is the number of GPUs, default 1, FAKE_FAILS the number of operations until one fails. If the
 * driver's double is found as libcuda.so.1, operations are reported to it, so that recorders see
 * kernels and copies. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "tests/doubles/fake_device.h"

const dl_device_type *dl_device_entry(void);

const dl_device_type *dl_device_entry(void)
{
    const char *devices = getenv("FAKE_DEVICES"), *fails = getenv("FAKE_FAILS");
    fake_device_share((size_t)64 << 20);
    fake_device_set(devices != NULL ? atoi(devices) : 1, fails != NULL ? atol(fails) : -1);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *found = driver != NULL ? dlsym(driver, "driver_double_operation") : NULL;
    fake_listener listener;
    memcpy(&listener, &found, sizeof found);
    fake_device_listen(listener);
    return &fake_device;
}
