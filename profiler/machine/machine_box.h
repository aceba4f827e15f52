/* What was found out about the machine that dlprof runs on: the parts of a machine file
 * (common/machine.h) together with what only its comments say (addresses, rates on the wire).
 * Filled by machine_probe.h (processors, PCIe tree), machine_gpu.h (what NVIDIA's driver says) and
 * machine_stream.h (memory rate), written by machine_write.h.
 *
 * Everywhere 0 and "" mean that the system did not tell. Places are those of a machine file:
 * 0 .. sockets-1 are the sockets, then come the switches. */
#ifndef DL_PROFILER_MACHINE_BOX_H
#define DL_PROFILER_MACHINE_BOX_H

#include <stdbool.h>
#include <stddef.h>

#include "common/machine.h"

#define DL_BUS_ID_BYTES 16 /* "0000:3b:00.0" */
#define DL_BOX_NAME_BYTES 96

/* The best that both ends of a PCIe link can do. (GPUs at rest slow their link down.) */
typedef struct dl_pci_link {
    double transfers_per_s; /* of a lane */
    int lanes;
    double wire_bytes_per_s; /* each direction, without the line code */
} dl_pci_link;

typedef struct dl_box_switch {
    char bus_id[DL_BUS_ID_BYTES]; /* of its upstream port */
    int parent;                   /* place */
    dl_pci_link link;             /* to the parent */
} dl_box_switch;

typedef struct dl_box_gpu {
    char bus_id[DL_BUS_ID_BYTES];
    unsigned device_id; /* PCI */
    int parent;         /* place */
    dl_pci_link link;

    /* From the driver. */
    char name[DL_BOX_NAME_BYTES];     /* "NVIDIA A100-SXM4-40GB" */
    int major, minor;                 /* compute capability */
    double cores;                     /* that do one fp32 multiply-add a cycle */
    double clock_hz, memory_clock_hz; /* highest */
    double memory_bus_bits, memory_bytes;
} dl_box_gpu;

typedef struct dl_box_nic {
    char bus_id[DL_BUS_ID_BYTES];
    char name[DL_BOX_NAME_BYTES]; /* eth0, mlx5_0 */
    bool infiniband;              /* else Ethernet */
    int parent;                   /* place */
    dl_pci_link link;
    double port_bytes_per_s; /* on the wire; 0 also where no cable is in */
} dl_box_nic;

typedef struct dl_box_nvlink {
    int a, b; /* GPUs, a < b */
    int lanes;
} dl_box_nvlink;

typedef struct dl_box {
    char name[DL_BOX_NAME_BYTES], processor[DL_BOX_NAME_BYTES];
    int sockets, cores;
    double memory_bytes, cache_bytes; /* of all sockets; the last level of caches */
    int numa_count;
    bool places_known; /* false: some devices stand at socket0 for want of better knowledge */
    bool peer_memory;  /* the kernel module for copies between NICs and GPUs is loaded */

    dl_box_switch *switches;
    dl_box_gpu
        *gpus; /* in the order of their addresses, as CUDA_DEVICE_ORDER=PCI_BUS_ID has them */
    dl_box_nic *nics;
    int switch_count, gpu_count, nic_count;

    char driver_note[160]; /* why the driver told nothing; "" = it did */
    dl_box_nvlink *nvlinks;
    int nvlink_count;
    double nvlink_bytes_per_s; /* of a lane, on the wire, each direction */
    int nvswitch_lanes;        /* of each GPU; 0 = no NVSwitch */
    bool peer_known;
    dl_peer peer;

    /* Measured, by machine_stream.h. */
    double socket_memory_bytes_per_s; /* a socket's cores on its own memory */
    double socket_link_bytes_per_s;   /* a socket's cores read the next one's memory */
} dl_box;

/* Releases everything; a zeroed object is fine. */
void dl_box_free(dl_box *box);

/* The socket over (or at) `place`. */
int dl_box_socket(const dl_box *box, int place);

/* Whether the ways from two places to their socket meet in a switch. */
bool dl_box_share_switch(const dl_box *box, int place_a, int place_b);

/* Fills the rate on the wire from transfers and lanes; 0 if one of them is unknown. */
void dl_pci_link_set_wire(dl_pci_link *link);

/* 1 .. 6, 0 if the rate of the lanes is unknown or none of PCIe's. */
int dl_pci_link_generation(const dl_pci_link *link);

#endif
