#include "profiler/machine/machine_links.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

/* What copies get of the rate on the wire, and how long a link takes. Fractions: PCIe: 12.4
 * of 15.75 GB/s (PCIe 3.0 x16) and 26.2 of 31.5 (4.0), both superbenchmark tests/data.
 * NVLink: 18.31 of 20 GB/s (P100), 23.95 of 25 (V100, both Dell EMC, p2pBandwidthLatencyTest), 279
 * of 300 (A100, superbenchmark). Ethernet: 1448 bytes of a TCP segment in 1538 on the wire with
 * frames of 1500. InfiniBand and the latencies: typical figures, not measured here. */
typedef struct link_kind {
    double fraction, latency_ns;
    const char *fraction_text;
} link_kind;

static const link_kind pcie = {0.8, 1000, "copies reach about 0.8"};
static const link_kind nvlink = {0.93, 700, "copies reach about 0.93"};
static const link_kind nvswitch = {0.93, 350, "copies reach about 0.93"};
static const link_kind ethernet = {0.94, 25000, "TCP gets 0.94"};
static const link_kind infiniband = {0.96, 1300, "messages get about 0.96"};
#define SOCKET_LATENCY_NS \
    500 /* of the size of remote less local memory latency of two-socket hosts */

void dl_pci_link_name(char name[DL_LINK_NAME_BYTES], const dl_pci_link *link)
{
    const int generation = dl_pci_link_generation(link);
    if (generation > 0 && link->lanes > 0) {
        snprintf(name, DL_LINK_NAME_BYTES, "pcie%dx%d", generation, link->lanes);
    } else if (link->wire_bytes_per_s > 0) {
        snprintf(name, DL_LINK_NAME_BYTES, "pcie%.4g", link->wire_bytes_per_s / 1e9);
    } else {
        snprintf(name, DL_LINK_NAME_BYTES, "pcie");
    }
}

void dl_port_name(char name[DL_LINK_NAME_BYTES], const dl_box_nic *nic)
{
    snprintf(name, DL_LINK_NAME_BYTES, "%s%.4g", nic->infiniband ? "infiniband" : "ethernet",
             nic->port_bytes_per_s * 8 / 1e9);
}

static void add(dl_link_list *list, const dl_link_section *section)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].name, section->name) == 0) return;
    }
    list->items = dl_realloc(list->items, list->count + 1, sizeof *list->items, "links");
    list->items[list->count++] = *section;
}

/* A link with this rate on the wire; `what` says whose it is. */
static void set_rate(dl_link_section *section, const link_kind *kind, double wire, const char *what)
{
    section->bytes_per_s = wire * kind->fraction;
    section->evidence = DL_EVIDENCE_ASSUMED;
    section->latency_ns = kind->latency_ns;
    snprintf(section->comment, sizeof section->comment, "%s: %.4g GB/s on the wire, of which %s",
             what, wire / 1e9, kind->fraction_text);
}

static void add_pcie(dl_link_list *list, const dl_pci_link *link)
{
    dl_link_section section = {.latency_ns = pcie.latency_ns};
    dl_pci_link_name(section.name, link);
    if (link->wire_bytes_per_s > 0) {
        set_rate(&section, &pcie, link->wire_bytes_per_s, "PCIe");
    } else {
        snprintf(
            section.comment, sizeof section.comment,
            "PCIe, whose rate the system does not tell: lspci -vv as root (LnkSta), or measure "
            "copies (nvbandwidth)");
    }
    add(list, &section);
}

static void add_port(dl_link_list *list, const dl_box_nic *nic)
{
    dl_link_section section = {0};
    dl_port_name(section.name, nic);
    set_rate(&section, nic->infiniband ? &infiniband : &ethernet, nic->port_bytes_per_s,
             nic->infiniband ? "InfiniBand port" : "Ethernet port");
    add(list, &section);
}

static void add_nvlink(dl_link_list *list, const char *name, const link_kind *kind, int lanes,
                       double lane_bytes_per_s)
{
    dl_link_section section = {.latency_ns = kind->latency_ns};
    snprintf(section.name, sizeof section.name, "%s", name);
    char what[64];
    snprintf(what, sizeof what, "%d lane%s of NVLink", lanes, lanes == 1 ? "" : "s");
    if (lane_bytes_per_s > 0) {
        set_rate(&section, kind, lanes * lane_bytes_per_s, what);
    } else {
        snprintf(section.comment, sizeof section.comment,
                 "%s, whose rate the driver does not tell: nvidia-smi nvlink --status", what);
    }
    add(list, &section);
}

static void add_sockets(dl_link_list *list, double measured)
{
    dl_link_section section = {.name = DL_LINK_OF_SOCKETS,
                               .bytes_per_s = measured,
                               .evidence = DL_EVIDENCE_MEASURED,
                               .latency_ns = SOCKET_LATENCY_NS};
    snprintf(section.comment, sizeof section.comment, "%s",
             measured > 0 ? "cores of a socket read the memory of the next"
                          : "UPI, QPI or xGMI: links x rate in the processor's data sheet, or "
                            "dlprof machine --measure");
    add(list, &section);
}

dl_link_list dl_link_list_make(const dl_box *box)
{
    dl_link_list list = {0};
    for (int i = 0; i < box->gpu_count; i++)
        add_pcie(&list, &box->gpus[i].link);
    for (int i = 0; i < box->switch_count; i++)
        add_pcie(&list, &box->switches[i].link);
    for (int i = 0; i < box->nic_count; i++) {
        if (box->nics[i].port_bytes_per_s <= 0) continue;
        add_pcie(&list, &box->nics[i].link);
        add_port(&list, &box->nics[i]);
    }
    if (box->nvlink_count > 0) {
        add_nvlink(&list, DL_LINK_OF_NVLINK, &nvlink, 1, box->nvlink_bytes_per_s);
    }
    if (box->nvswitch_lanes > 0) {
        add_nvlink(&list, DL_LINK_OF_NVSWITCH, &nvswitch, box->nvswitch_lanes,
                   box->nvlink_bytes_per_s);
    }
    if (box->sockets > 1) add_sockets(&list, box->socket_link_bytes_per_s);
    return list;
}

void dl_link_list_free(dl_link_list *list)
{
    free(list->items);
    *list = (dl_link_list){0};
}
