/* Processors, memory, PCIe tree, GPUs and NICs of a machine, out of an hwloc topology.
 *
 * In the tree, ports of PCIe switches alternate on the way down from a host bridge: root port,
 * upstream port, downstream port, upstream port of the next switch, ... A switch is known by its
 * upstream port; only those with a GPU or a NIC below are kept. GPUs are NVIDIA's display and 3D
 * controllers; NICs are network controllers that the system has a driver for, without virtual
 * functions.
 *
 * What it leaves out: that the functions of one card share its link; devices of other makers. */
#ifndef DL_PROFILER_MACHINE_PROBE_H
#define DL_PROFILER_MACHINE_PROBE_H

#include "profiler/machine/machine_box.h"

struct hwloc_topology; /* hwloc_topology_t points to it */

/* Fills `box`, which the caller zeroed and frees, from a loaded topology with I/O objects. `sysfs`
 * is
 * "/sys", or NULL where the topology is not that of this machine: rates of links are then those
 * that the topology holds, rates of ports unknown. */
void dl_probe_topology(dl_box *box, struct hwloc_topology *topology, const char *sysfs);

/* The same of this machine. DL_ERR_SYSTEM if hwloc cannot look at it. */
dl_status dl_probe_machine(dl_box *box, dl_error *err) DL_MUST_CHECK;

#endif
