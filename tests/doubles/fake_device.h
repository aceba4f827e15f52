/* A device without hardware: the processor's operations of an mlp in double, done behind the host's
 * back. Its memory has addresses that no host can read, and nothing is done before somebody waits,
 * so that whoever looks too early sees it. One operation takes FAKE_OPERATION_NS of its clock. A
 * kernel is loaded when it is first issued, which cannot be done while the device is held up. */
#ifndef DL_TESTS_DOUBLES_FAKE_DEVICE_H
#define DL_TESTS_DOUBLES_FAKE_DEVICE_H

#include "kernels/device.h"

#define FAKE_OPERATION_NS 100
#define FAKE_USED_BYTES 54321

extern const dl_device_type fake_device;

/* Devices that there are, and operations on all of them together until one fails; < 0: none does.
 */
void fake_device_set(int devices, long operations_until_failure);

/* From now on operations of k slots of one device that have computed something take (k + 1) / 2 times as
 * long each: kernels that fill half of a device. And its memory is so large. */
void fake_device_share(size_t memory_bytes);

/* Whether the fake devices of several ranks can be named as one group. */
void fake_device_refuse_ids(bool refuse);

/* Blocks of the device's and the host's memory, and places, that were not released. */
int fake_device_leaks(void);

/* Numbers of the devices opened since fake_device_set, as digits: "010". */
const char *fake_device_opened(void);

/* Has each operation told when it is issued: its name, and the bytes of a copy to or from the host. */
typedef void (*fake_listener)(int device, const char *operation, size_t copied_bytes,
                              bool to_device);
void fake_device_listen(fake_listener listener);

#endif
