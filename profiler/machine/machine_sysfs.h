/* What Linux says about links and ports in /sys. `root` is "/sys", or a folder like it in tests.
 * What is not there, or says "Unknown", is 0. */
#ifndef DL_PROFILER_MACHINE_SYSFS_H
#define DL_PROFILER_MACHINE_SYSFS_H

#include "profiler/machine/machine_box.h"

/* The link of the device `bus_id` to the port above it (NULL or "": none that is seen): the lanes
 * in use and the highest rate that both ends can do. Not the rate in use, which GPUs lower at rest.
 */
dl_pci_link dl_sysfs_pci_link(const char *root, const char *bus_id, const char *port);

/* Rate of the network device `name` in bytes a second; 0 without a carrier and for most virtual
 * devices. */
double dl_sysfs_net_rate(const char *root, const char *name);

/* The same of port 1 of an InfiniBand (or RoCE) device. */
double dl_sysfs_infiniband_rate(const char *root, const char *name);

/* Whether the port's link layer is InfiniBand rather than Ethernet. */
bool dl_sysfs_is_infiniband(const char *root, const char *name);

/* Whether the device is one of a NIC's virtual functions, which share its port. */
bool dl_sysfs_is_virtual_function(const char *root, const char *bus_id);

/* Whether the kernel module `name` is loaded. */
bool dl_sysfs_has_module(const char *root, const char *name);

#endif
