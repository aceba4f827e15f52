/* The fake device (fake_device.h) as the library that dlprof loads for --device cuda. FAKE_DEVICES is
 * the number of GPUs, default 1. */
#include <stdlib.h>

#include "tests/doubles/fake_device.h"

const dl_device_type *dl_device_entry(void);

const dl_device_type *dl_device_entry(void)
{
    const char *devices = getenv("FAKE_DEVICES");
    fake_device_share((size_t)64 << 20);
    fake_device_set(devices != NULL ? atoi(devices) : 1, -1);
    return &fake_device;
}
