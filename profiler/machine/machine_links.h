/* The [link ..] sections of a machine file: which kinds of links a machine has, and what programs
 * get of their rates. */
#ifndef DL_PROFILER_MACHINE_LINKS_H
#define DL_PROFILER_MACHINE_LINKS_H

#include "profiler/machine/machine_box.h"

#define DL_LINK_NAME_BYTES 40
#define DL_LINK_OF_SOCKETS "sockets"
#define DL_LINK_OF_NVLINK "nvlink" /* one lane */
#define DL_LINK_OF_NVSWITCH "nvswitch"

typedef struct dl_link_section {
    char name[DL_LINK_NAME_BYTES];
    double bytes_per_s; /* 0 = unknown */
    dl_evidence evidence;
    double latency_ns; /* assumed */
    char comment[256]; /* from what the rate was taken, or where to find it */
} dl_link_section;

typedef struct dl_link_list {
    dl_link_section *items;
    size_t count;
} dl_link_list;

/* All kinds that the box uses, each once. Release with dl_link_list_free. */
dl_link_list dl_link_list_make(const dl_box *box);
void dl_link_list_free(dl_link_list *list);

/* "pcie4x16"; "pcie15.75" (GB/s on the wire) where generation or lanes are unknown; "pcie". */
void dl_pci_link_name(char name[DL_LINK_NAME_BYTES], const dl_pci_link *link);

/* "infiniband200", "ethernet25" (Gb/s). */
void dl_port_name(char name[DL_LINK_NAME_BYTES], const dl_box_nic *nic);

#endif
