#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/machine_shm.h"
#include "profiler/machine/machine_box.h"

#define DL_LINK_OF_SOCKETS "sockets"
#define DL_LINK_OF_NVLINK "nvlink" /* per lane */
#define DL_LINK_OF_NVSWITCH "nvswitch"

/* The fraction of the wire rate that copies reach, and the latency, by kind of link. PCIe: 12.4 of
 * 15.75 GB/s (PCIe 3.0 x16) and 26.2 of 31.5 (4.0), both superbenchmark tests/data. NVLink: 18.31
 * of 20 GB/s (P100), 23.95 of 25 (V100, both Dell EMC, p2pBandwidthLatencyTest), 279 of 300 (A100,
 * superbenchmark). Ethernet: a TCP segment's 1448 bytes of payload in 1538 bytes on the wire, at an
 * MTU of 1500. InfiniBand and the latencies: typical figures, not measured here. */
typedef struct link_kind {
    double fraction, latency_ns;
    const char *fraction_text;
} link_kind;

static const link_kind pcie_kind = {0.8, 1000, "copies reach about 0.8"};
static const link_kind nvlink = {0.93, 700, "copies reach about 0.93"};
static const link_kind nvswitch = {0.93, 350, "copies reach about 0.93"};
static const link_kind ethernet = {0.94, 25000, "TCP gets 0.94"};
static const link_kind infiniband = {0.96, 1300, "messages get about 0.96"};

#define SOCKET_LATENCY_NS 500 /* typical remote less local memory latency of two-socket hosts */

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
    DL_APPEND(list->items, list->count, "links") = *section;
}

/* Sets the section's rate from the rate on the wire; `what` names the kind of link. */
static void set_rate(dl_link_section *section, const link_kind *kind, double wire, const char *what)
{
    section->bytes_per_s = wire * kind->fraction;
    section->origin = DL_ORIGIN_ASSUMED;
    section->latency_ns = kind->latency_ns;
    snprintf(section->comment, sizeof section->comment, "%s: %.4g GB/s on the wire, of which %s",
             what, wire / 1e9, kind->fraction_text);
}

static void add_pcie(dl_link_list *list, const dl_pci_link *link)
{
    dl_link_section section = {.latency_ns = pcie_kind.latency_ns};
    dl_pci_link_name(section.name, link);
    if (link->wire_bytes_per_s > 0) {
        set_rate(&section, &pcie_kind, link->wire_bytes_per_s, "PCIe");
    } else {
        snprintf(
            section.comment, sizeof section.comment,
            "PCIe, whose rate the system does not report: lspci -vv as root (LnkSta), or measure "
            "copies (nvbandwidth)");
    }
    add(list, &section);
}

/* Adds the link of a GPU whose copies were measured. */
static void add_measured(dl_link_list *list, const dl_box_gpu *gpu)
{
    dl_link_section section = {.bytes_per_s = (gpu->to_bytes_per_s + gpu->from_bytes_per_s) / 2,
                               .duplex_bytes_per_s = gpu->both_bytes_per_s,
                               .origin = DL_ORIGIN_MEASURED,
                               .latency_ns = pcie_kind.latency_ns};
    dl_pci_link_name(section.name, &gpu->link);
    snprintf(section.comment, sizeof section.comment,
             "copies of pinned memory: %.4g GB/s to a GPU, %.4g GB/s from it",
             gpu->to_bytes_per_s / 1e9, gpu->from_bytes_per_s / 1e9);
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

/* Adds a link over `lanes` lanes of NVLink. `measured`: rate between two GPUs over all these lanes;
 * 0: not measured. */
static void add_nvlink(dl_link_list *list, const char *name, const link_kind *kind, int lanes,
                       double lane_bytes_per_s, double measured)
{
    dl_link_section section = {.latency_ns = kind->latency_ns};
    snprintf(section.name, sizeof section.name, "%s", name);
    char what[64];
    snprintf(what, sizeof what, "%d lane%s of NVLink", lanes, lanes == 1 ? "" : "s");
    if (measured > 0) {
        section.bytes_per_s = measured;
        section.origin = DL_ORIGIN_MEASURED;
        snprintf(section.comment, sizeof section.comment, "%s: copies from GPU to GPU", what);
    } else if (lane_bytes_per_s > 0) {
        set_rate(&section, kind, lanes * lane_bytes_per_s, what);
    } else {
        snprintf(section.comment, sizeof section.comment,
                 "%s, whose rate the driver does not report: nvidia-smi nvlink --status", what);
    }
    add(list, &section);
}

static void add_sockets(dl_link_list *list, double measured)
{
    dl_link_section section = {.name = DL_LINK_OF_SOCKETS,
                               .bytes_per_s = measured,
                               .origin = DL_ORIGIN_MEASURED,
                               .latency_ns = SOCKET_LATENCY_NS};
    snprintf(section.comment, sizeof section.comment, "%s",
             measured > 0 ? "cores of a socket read the memory of another"
                          : "UPI, QPI or xGMI: links x rate in the processor's data sheet, or "
                            "dlprof machine --measure");
    add(list, &section);
}

dl_link_list dl_link_list_make(const dl_box *box)
{
    dl_link_list list = {0};
    for (int i = 0; i < box->gpu_count; i++) {
        if (box->gpus[i].to_bytes_per_s > 0) {
            add_measured(&list, &box->gpus[i]);
        } else {
            add_pcie(&list, &box->gpus[i].link);
        }
    }
    for (int i = 0; i < box->switch_count; i++)
        add_pcie(&list, &box->switches[i].link);
    for (int i = 0; i < box->nic_count; i++) {
        if (box->nics[i].port_bytes_per_s <= 0) continue;
        add_pcie(&list, &box->nics[i].link);
        add_port(&list, &box->nics[i]);
    }
    if (box->nvlink_count > 0) {
        add_nvlink(&list, DL_LINK_OF_NVLINK, &nvlink, 1, box->nvlink_bytes_per_s,
                   box->nvlink_copy_bytes_per_s);
    }
    if (box->nvswitch_lanes > 0) {
        add_nvlink(&list, DL_LINK_OF_NVSWITCH, &nvswitch, box->nvswitch_lanes,
                   box->nvlink_bytes_per_s, box->nvswitch_copy_bytes_per_s);
    }
    if (box->sockets > 1) add_sockets(&list, box->socket_link_bytes_per_s);
    return list;
}

void dl_link_list_free(dl_link_list *list)
{
    free(list->items);
    *list = (dl_link_list){0};
}

/* Dense products with fp32 accumulation, over the fp32 rate: NVIDIA's white papers and data sheets
 * of P100, V100, T4, A100, A10, L4, H100, B200. GeForce cards since Turing do half of that
 * (appendices of the white papers on TU102, GA102, AD102). The maximum clock of Hopper's tensor
 * cores is lower than that of its other units: 1830 of 1980 MHz in H100 SXM5, 1620 of 1755 in H100
 * PCIe (H100 architecture white paper, table 3). Some products (A10G, L40, H20) are slower still,
 * so files mark these rates as assumed. 0 = no such cores. */
#define HOPPER_CLOCK (1830.0 / 1980)
static const struct {
    int major, minor;
    double fp16, tf32, fp8; /* at equal clocks */
    double geforce;         /* fraction of these rates on GeForce cards */
    double clock;           /* clock of the tensor cores over the highest clock */
} ratios[] = {
    {6, 0, 2, 0, 0, 1, 1},
    {7, 0, 8, 0, 0, 1, 1},
    {7, 5, 8, 0, 0, 0.5, 1},
    {8, 0, 16, 8, 0, 1, 1},
    {8, 6, 4, 2, 0, 0.5, 1},
    {8, 9, 4, 2, 8, 0.5, 1},
    {9, 0, 16, 8, 32, 1, HOPPER_CLOCK},
    {10, 0, 32, 16, 64, 1, 1},
};

/* Among the compute capabilities from 7.0 on, only 7.5 includes cards without tensor cores. */
static bool has_tensor_cores(const dl_box_gpu *gpu)
{
    return gpu->major != 7 || gpu->minor != 5 || strstr(gpu->name, "RTX") != NULL ||
           strstr(gpu->name, "T4") != NULL;
}

dl_gpu_rates dl_gpu_rates_find(const dl_box_gpu *gpu)
{
    dl_gpu_rates rates = {
        .fp32_flop_per_s = 2 * gpu->cores * gpu->clock_hz,
        .memory_bytes_per_s = 2 * gpu->memory_clock_hz * gpu->memory_bus_bits / 8,
    };
    for (size_t i = 0; i < DL_LENGTH(ratios); i++) {
        if (ratios[i].major != gpu->major || ratios[i].minor != gpu->minor) continue;
        if (!has_tensor_cores(gpu)) continue;
        const double part = strstr(gpu->name, "GeForce") != NULL ? ratios[i].geforce : 1;
        const double full = rates.fp32_flop_per_s * ratios[i].clock * part;
        rates.fp16_flop_per_s = full * ratios[i].fp16;
        rates.tf32_flop_per_s = full * ratios[i].tf32;
        rates.fp8_flop_per_s = full * ratios[i].fp8;
    }
    return rates;
}

#define NAME_MAX_BYTES 36 /* longest name in "[gpu_model NAME]" */

/* State of the writer. */
typedef struct writer {
    const dl_box *box;
    FILE *out;
    dl_machine_gaps *gaps;
} writer;

/* A unit of a value; `factor` is its size in base units. */
typedef struct unit {
    const char *name;
    double factor;
} unit;

static const unit bytes = {"", 1}, gb_per_s = {"GB/s", 1e9}, tflop_per_s = {"Tflop/s", 1e12},
                  us = {"us", 1e3};

static void put_value(const writer *w, const char *key, double value, unit in, dl_origin origin,
                      const char *comment)
{
    fprintf(w->out, "%-18s = ", key);
    fprintf(w->out, in.factor > 1 ? "%.4g" : "%.0f", value / in.factor);
    fprintf(w->out, "%s, %s%s%s\n", in.name, dl_origin_name(origin),
            comment[0] != '\0' ? "   ; " : "", comment);
}

/* Writes a key that the user has to fill in, and lists it as a gap. */
static void put_gap(const writer *w, const char *section, const char *key, const char *where)
{
    fprintf(w->out, "; %s = ...   ; fill in: %s\n", key, where);
    DL_APPEND(w->gaps->keys, w->gaps->count, "gaps") = dl_format("[%s] %s", section, key);
}

/* Writes text as part of a line: nothing in it starts a comment or ends the line. */
static void put_text(const writer *w, const char *text)
{
    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;
        fputc(c < ' ' || c == 0x7f ? ' ' : c == ';' ? ',' : c, w->out);
    }
}

static void put_place(const writer *w, int place)
{
    if (place < w->box->sockets) {
        fprintf(w->out, "parent = socket%d\n", place);
    } else {
        fprintf(w->out, "parent = switch%d\n", place - w->box->sockets);
    }
}

static void put_link(const writer *w, const dl_pci_link *link)
{
    char name[DL_LINK_NAME_BYTES];
    dl_pci_link_name(name, link);
    fprintf(w->out, "link   = %s\n", name);
}

/* "NVIDIA A100-SXM4-40GB" becomes a100-sxm4-40gb; a GPU known only by its PCI number,
 * nvidia_20b0. */
static char *model_name(const dl_box_gpu *gpu)
{
    static const char maker[] = "NVIDIA ";
    if (gpu->name[0] == '\0') return dl_format("nvidia_%04x", gpu->device_id);
    const char *text = gpu->name;
    if (strncmp(text, maker, strlen(maker)) == 0 && text[strlen(maker)] != '\0') {
        text += strlen(maker);
    }
    const size_t length = strlen(text);
    char *name = dl_strndup(text, length < NAME_MAX_BYTES ? length : NAME_MAX_BYTES);
    for (char *c = name; *c != '\0'; c++) {
        const bool plain = isalnum((unsigned char)*c) || *c == '-' || *c == '.';
        *c = plain ? (char)tolower((unsigned char)*c) : '_';
    }
    return name;
}

static bool same_model(const dl_box_gpu *a, const dl_box_gpu *b)
{
    return a->device_id == b->device_id && strcmp(a->name, b->name) == 0;
}

static bool same_group(const dl_box_gpu *a, const dl_box_gpu *b)
{
    char name_a[DL_LINK_NAME_BYTES], name_b[DL_LINK_NAME_BYTES];
    dl_pci_link_name(name_a, &a->link);
    dl_pci_link_name(name_b, &b->link);
    return same_model(a, b) && a->parent == b->parent && strcmp(name_a, name_b) == 0;
}

static void write_head(const writer *w)
{
    static const char *const peers[] = {"none", "switch", "socket", "all"};
    const dl_box *box = w->box;
    fprintf(
        w->out,
        "; Written by dlprof machine. Each value says where it comes from: measured (here, or as "
        "system\n; and driver report it), catalogue (peaks that follow from clocks and widths), "
        "assumed.\n[machine]\nschema    = 1\nname      = ");
    put_text(w, box->name[0] != '\0' ? box->name : "this machine");
    fprintf(w->out, "\n; nodes   = 1                       how many of these there are\n"
                    "; price_usd_per_hour =              of one node, from the provider's list\n");
    fprintf(w->out, "peer      = %-6s                  ; %s\n",
            peers[box->peer_known ? box->peer : DL_PEER_SWITCH],
            box->peer_known ? "as the driver reports for pairs without NVLink"
                            : "assumed: nvidia-smi topo -p2p r shows it");
    fprintf(w->out,
            "gpudirect = %-6s                  ; nvidia_peermem is %s; dma-buf needs none\n",
            box->peer_memory ? "yes" : "no", box->peer_memory ? "loaded" : "not loaded");
}

static void put_rates(const writer *w, const char *section, const dl_box_gpu *gpu)
{
    static const char ratio[] = "from fp32 by its compute capability; see its data sheet";
    const dl_gpu_rates rates = dl_gpu_rates_find(gpu);
    if (gpu->average_bytes_per_s > 0) {
        put_value(w, "memory_bytes_per_s", gpu->average_bytes_per_s, gb_per_s, DL_ORIGIN_MEASURED,
                  "reached by averages of vectors in it");
    } else if (rates.memory_bytes_per_s > 0) {
        put_value(w, "memory_bytes_per_s", rates.memory_bytes_per_s, gb_per_s, DL_ORIGIN_CATALOGUE,
                  "2 x highest memory clock x bus width");
    } else {
        put_gap(w, section, "memory_bytes_per_s", "its data sheet");
    }
    if (rates.fp32_flop_per_s > 0) {
        put_value(w, "fp32_flop_per_s", rates.fp32_flop_per_s, tflop_per_s, DL_ORIGIN_CATALOGUE,
                  "2 x cores x highest clock");
    } else {
        put_gap(w, section, "fp32_flop_per_s", "its data sheet");
    }
    if (rates.tf32_flop_per_s > 0) {
        put_value(w, "tf32_flop_per_s", rates.tf32_flop_per_s, tflop_per_s, DL_ORIGIN_ASSUMED,
                  ratio);
    }
    if (rates.fp16_flop_per_s > 0) {
        put_value(w, "fp16_flop_per_s", rates.fp16_flop_per_s, tflop_per_s, DL_ORIGIN_ASSUMED,
                  ratio);
    } else {
        fprintf(w->out,
                "; fp16_flop_per_s, tf32_flop_per_s: its data sheet, dense; if it has any\n");
    }
    if (rates.fp8_flop_per_s > 0) {
        put_value(w, "fp8_flop_per_s", rates.fp8_flop_per_s, tflop_per_s, DL_ORIGIN_ASSUMED, ratio);
    }
}

static void write_model(const writer *w, const dl_box_gpu *gpu)
{
    DL_AUTOFREE char *name = model_name(gpu), *section = dl_format("gpu_model %s", name);
    fprintf(w->out, "\n; ");
    if (gpu->name[0] != '\0') {
        put_text(w, gpu->name);
        fprintf(w->out, ", compute capability %d.%d", gpu->major, gpu->minor);
    } else {
        fprintf(w->out, "NVIDIA GPU of PCI number %04x", gpu->device_id);
    }
    fprintf(w->out, "\n[%s]\n", section);
    if (gpu->memory_bytes > 0) {
        put_value(w, "memory_bytes", gpu->memory_bytes, bytes, DL_ORIGIN_MEASURED,
                  "as the driver reports");
    } else {
        put_gap(w, section, "memory_bytes", "its data sheet");
    }
    put_rates(w, section, gpu);
}

static void write_models(const writer *w)
{
    for (int i = 0; i < w->box->gpu_count; i++) {
        bool again = false;
        for (int j = 0; j < i && !again; j++)
            again = same_model(&w->box->gpus[i], &w->box->gpus[j]);
        if (!again) write_model(w, &w->box->gpus[i]);
    }
}

static void write_links(const writer *w)
{
    DL_SCOPED(dl_link_list) links = dl_link_list_make(w->box);
    for (size_t i = 0; i < links.count; i++) {
        const dl_link_section *link = &links.items[i];
        fprintf(w->out, "\n; %s\n[link %s]\n", link->comment, link->name);
        if (link->bytes_per_s > 0) {
            put_value(w, "bytes_per_s", link->bytes_per_s, gb_per_s, link->origin, "");
        } else {
            DL_AUTOFREE char *section = dl_format("link %s", link->name);
            put_gap(w, section, "bytes_per_s", "of each direction, see above");
        }
        if (link->duplex_bytes_per_s > 0) {
            put_value(w, "duplex_bytes_per_s", link->duplex_bytes_per_s, gb_per_s,
                      DL_ORIGIN_MEASURED, "both directions together");
        }
        put_value(w, "latency_ns", link->latency_ns, us, DL_ORIGIN_ASSUMED, "");
    }
}

static void write_host(const writer *w)
{
    const dl_box *box = w->box;
    fprintf(w->out, "\n; %d NUMA node%s", box->numa_count, box->numa_count == 1 ? "" : "s");
    if (box->processor[0] != '\0') {
        fprintf(w->out, "; ");
        put_text(w, box->processor);
    }
    fprintf(w->out, "\n[host]\nsockets            = %d\ncores              = %d\n", box->sockets,
            box->cores);
    if (box->memory_bytes > 0) {
        put_value(w, "memory_bytes", box->memory_bytes, bytes, DL_ORIGIN_MEASURED,
                  "as the system reports");
    }
    if (box->socket_memory_bytes_per_s > 0) {
        put_value(w, "memory_bytes_per_s", box->socket_memory_bytes_per_s, gb_per_s,
                  DL_ORIGIN_MEASURED, "of a socket: triad a = b + s c on all cores");
    } else {
        put_gap(w, "host", "memory_bytes_per_s",
                "of a socket: dlprof machine --measure, or channels x rate of its memory");
    }
    if (box->root_bytes_per_s > 0) {
        put_value(w, "root_bytes_per_s", box->root_bytes_per_s, gb_per_s, DL_ORIGIN_MEASURED,
                  "copies to all GPUs at once");
    } else {
        fprintf(w->out,
                "; root_bytes_per_s: of all devices of a socket, each direction; measure copies "
                "to several GPUs\n");
    }
    if (box->sockets > 1) fprintf(w->out, "socket_link        = %s\n", DL_LINK_OF_SOCKETS);
}

static void write_switches(const writer *w)
{
    const dl_box *box = w->box;
    if (!box->places_known) {
        fprintf(w->out,
                "\n; The system does not report to which socket all devices belong: they are "
                "written at socket0.\n; The mainboard's manual or nvidia-smi topo -m may "
                "tell.\n");
    }
    for (int i = 0; i < box->switch_count; i++) {
        fprintf(w->out, "\n[switch switch%d]   ; %s\n", i, box->switches[i].bus_id);
        put_place(w, box->switches[i].parent);
        put_link(w, &box->switches[i].link);
    }
}

static void write_gpus(const writer *w)
{
    const dl_box *box = w->box;
    if (box->driver_note[0] != '\0' && box->gpu_count > 0) {
        fprintf(w->out, "\n; The driver reported nothing about the GPUs: ");
        put_text(w, box->driver_note);
        fputc('\n', w->out);
    }
    if (box->gpu_count == 0) {
        fprintf(w->out, "\n; This machine has no NVIDIA GPU. dlsim needs some: [gpu_model M] and "
                        "[gpus 0-3], see common/machine.h.\n");
        put_gap(w, "gpus", "model", "the GPUs that this machine should have");
    }
    for (int first = 0, next; first < box->gpu_count; first = next) {
        const dl_box_gpu *gpu = &box->gpus[first];
        for (next = first + 1; next < box->gpu_count && same_group(gpu, &box->gpus[next]);)
            next++;
        DL_AUTOFREE char *name = model_name(gpu);
        fprintf(w->out, next - first > 1 ? "\n[gpus %d-%d]   ;" : "\n[gpus %d]   ;", first,
                next - 1);
        for (int i = first; i < next; i++)
            fprintf(w->out, " %s", box->gpus[i].bus_id);
        fprintf(w->out, "\nmodel  = %s\n", name);
        put_place(w, gpu->parent);
        put_link(w, &gpu->link);
    }
}

static void write_nics(const writer *w)
{
    int number = 0;
    for (int i = 0; i < w->box->nic_count; i++) {
        const dl_box_nic *nic = &w->box->nics[i];
        if (nic->port_bytes_per_s <= 0) {
            fprintf(w->out, "\n; %s at %s left out: no link, or its rate is not reported\n",
                    nic->name, nic->bus_id);
            continue;
        }
        char port[DL_LINK_NAME_BYTES];
        dl_port_name(port, nic);
        fprintf(w->out, "\n[nics %d]   ; %s, %s\n", number++, nic->name, nic->bus_id);
        put_place(w, nic->parent);
        put_link(w, &nic->link);
        fprintf(w->out, "port   = %s\n", port);
    }
}

/* Writes one section per number of lanes. */
static void write_nvlinks(const writer *w)
{
    const dl_box *box = w->box;
    for (int lanes = 1; lanes <= 64; lanes++) {
        bool begun = false;
        for (int i = 0; i < box->nvlink_count; i++) {
            if (box->nvlinks[i].lanes != lanes) continue;
            if (!begun) {
                fprintf(w->out, "\n[nvlinks lanes%d]\nlink  = %s\nlanes = %d\npairs = ", lanes,
                        DL_LINK_OF_NVLINK, lanes);
            }
            fprintf(w->out, "%s%d-%d", begun ? ", " : "", box->nvlinks[i].a, box->nvlinks[i].b);
            begun = true;
        }
        if (begun) fputc('\n', w->out);
    }
    if (box->nvswitch_lanes > 0) {
        fprintf(w->out, "\n[nvswitch]\nlink = %s\n", DL_LINK_OF_NVSWITCH);
    }
}

/* Returns the first GPU that exchanges with another through host memory in collectives; -1:
 * none. */
static int find_shared(const dl_box *box)
{
    const bool direct = !box->peer_known || box->peer != DL_PEER_NONE; /* whether pairs below one
                                                                        * switch copy directly */
    for (int a = 0; a < box->gpu_count; a++) {
        for (int b = a + 1; b < box->gpu_count; b++) {
            const bool below = dl_box_share_switch(box, box->gpus[a].parent, box->gpus[b].parent);
            if (!dl_box_has_nvlink(box, a, b) && !(direct && below)) return a;
        }
    }
    return -1;
}

/* Writes the assumptions about collectives: dlprof machine does not measure them. */
static void write_shm(const writer *w)
{
    const int gpu = find_shared(w->box);
    if (gpu < 0) return;
    const double wire = w->box->gpus[gpu].link.wire_bytes_per_s;
    fputs("\n; Collectives between GPUs that no NVLink and no PCIe switch joins: nccl-tests, then "
          "dlcal "
          "links\n",
          w->out);
    dl_machine_write_shm(w->out, wire > 0 ? wire : DL_PCIE3_X16_BYTES_PER_S, wire > 0, "");
    dl_machine_write_overlap(w->out, "");
}

void dl_machine_write(const dl_box *box, FILE *out, dl_machine_gaps *gaps)
{
    const writer w = {box, out, gaps};
    write_head(&w);
    write_models(&w);
    write_links(&w);
    write_host(&w);
    write_switches(&w);
    write_gpus(&w);
    write_nics(&w);
    write_nvlinks(&w);
    write_shm(&w);
    fprintf(
        out,
        "\n; [protocol ..] of the collectives library: from nccl-tests, see the files that come "
        "with dlsim.\n");
}

void dl_machine_gaps_free(dl_machine_gaps *gaps)
{
    for (size_t i = 0; i < gaps->count; i++)
        free(gaps->keys[i]);
    free(gaps->keys);
    *gaps = (dl_machine_gaps){0};
}
