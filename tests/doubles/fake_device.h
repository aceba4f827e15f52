/* A device without hardware: the processor's operations of an mlp in double, run asynchronously.
 * Its memory has addresses that the host cannot read, and nothing runs before a wait, so that
 * reading results too early is detected. One operation takes FAKE_OPERATION_NS of the device's
 * clock. While the device is held, no kernel can be launched for the first time, which loads it, no
 * copy between devices that do not reach each other, and no more operations than GPUs queue; nor can
 * another slot be held for the first time, which allocates memory. */
#ifndef DL_TESTS_DOUBLES_FAKE_DEVICE_H
#define DL_TESTS_DOUBLES_FAKE_DEVICE_H

#include "kernels/device.h"

#define FAKE_OPERATION_NS 100
#define FAKE_USED_BYTES 54321

extern const dl_device_type fake_device;

/* Sets the number of devices, and the number of operations on all of them together until one fails;
 * < 0: none fails. */
void fake_device_set(int devices, long operations_until_failure);

/* From now on operations take (k + 1) / 2 times as long if k slots of one device have computed,
 * like kernels that fill half of a device. Also sets the device's memory. */
void fake_device_share(size_t memory_bytes);

/* Sets whether devices reach each other: if not, the host waits in copies between them. */
void fake_device_reach(bool reach);

/* With `refuse`, no id can be made for a group of fake devices in several ranks. */
void fake_device_refuse_ids(bool refuse);

/* Returns the number of memory blocks, of device and host, and of slots that were not released. */
int fake_device_leaks(void);

/* Returns the numbers of the devices opened since fake_device_set as digits: "010". */
const char *fake_device_opened(void);

/* Sets a function that is called for each queued operation with its name, and the bytes of a copy
 * to or from the host. */
typedef void (*fake_listener)(int device, const char *operation, size_t copied_bytes,
                              bool to_device);
void fake_device_listen(fake_listener listener);

#endif
