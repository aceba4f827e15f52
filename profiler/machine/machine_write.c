#include "profiler/machine/machine_write.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "profiler/machine/machine_links.h"
#include "profiler/machine/machine_rates.h"

#define NAME_MAX_BYTES 36 /* of a name in "[gpu_model NAME]" */

/* What the functions below share. */
typedef struct writer {
    const dl_box *box;
    FILE *out;
    dl_machine_gaps *gaps;
} writer;

/* A value with its unit; the factor is how many base units one is. */
typedef struct unit {
    const char *name;
    double factor;
} unit;
static const unit bytes = {"", 1}, gb_per_s = {"GB/s", 1e9}, tflop_per_s = {"Tflop/s", 1e12},
                  us = {"us", 1e3};

static void put_value(const writer *w, const char *key, double value, unit in, dl_evidence evidence,
                      const char *comment)
{
    fprintf(w->out, "%-18s = ", key);
    fprintf(w->out, in.factor > 1 ? "%.4g" : "%.0f", value / in.factor);
    fprintf(w->out, "%s, %s%s%s\n", in.name, dl_evidence_name(evidence),
            comment[0] != '\0' ? "   ; " : "", comment);
}

/* A key that has to be filled in. */
static void put_gap(const writer *w, const char *section, const char *key, const char *where)
{
    fprintf(w->out, "; %s = ...   ; fill in: %s\n", key, where);
    w->gaps->keys = dl_realloc(w->gaps->keys, w->gaps->count + 1, sizeof *w->gaps->keys, "gaps");
    w->gaps->keys[w->gaps->count++] = dl_format("[%s] %s", section, key);
}

/* Writes text as part of a line: nothing in it begins a comment or ends the line. */
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

/* "NVIDIA A100-SXM4-40GB" becomes a100-sxm4-40gb; a GPU of which only the PCI number is known,
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
                            : "assumed: nvidia-smi topo -p2p r tells");
    fprintf(w->out,
            "gpudirect = %-6s                  ; nvidia_peermem is %s; dma-buf needs none\n",
            box->peer_memory ? "yes" : "no", box->peer_memory ? "loaded" : "not loaded");
}

static void put_rates(const writer *w, const char *section, const dl_box_gpu *gpu)
{
    static const char ratio[] = "from fp32 by its compute capability; see its data sheet";
    const dl_gpu_rates rates = dl_gpu_rates_find(gpu);
    if (rates.memory_bytes_per_s > 0) {
        put_value(w, "memory_bytes_per_s", rates.memory_bytes_per_s, gb_per_s,
                  DL_EVIDENCE_CATALOGUE, "2 x highest memory clock x bus width");
    } else {
        put_gap(w, section, "memory_bytes_per_s", "its data sheet");
    }
    if (rates.fp32_flop_per_s > 0) {
        put_value(w, "fp32_flop_per_s", rates.fp32_flop_per_s, tflop_per_s, DL_EVIDENCE_CATALOGUE,
                  "2 x cores x highest clock");
    } else {
        put_gap(w, section, "fp32_flop_per_s", "its data sheet");
    }
    if (rates.tf32_flop_per_s > 0) {
        put_value(w, "tf32_flop_per_s", rates.tf32_flop_per_s, tflop_per_s, DL_EVIDENCE_ASSUMED,
                  ratio);
    }
    if (rates.fp16_flop_per_s > 0) {
        put_value(w, "fp16_flop_per_s", rates.fp16_flop_per_s, tflop_per_s, DL_EVIDENCE_ASSUMED,
                  ratio);
    } else {
        fprintf(w->out,
                "; fp16_flop_per_s, tf32_flop_per_s: its data sheet, dense; if it has any\n");
    }
}

static void write_model(const writer *w, const dl_box_gpu *gpu)
{
    char *name = model_name(gpu), *section = dl_format("gpu_model %s", name);
    fprintf(w->out, "\n; ");
    if (gpu->name[0] != '\0') {
        put_text(w, gpu->name);
        fprintf(w->out, ", compute capability %d.%d", gpu->major, gpu->minor);
    } else {
        fprintf(w->out, "NVIDIA GPU of PCI number %04x", gpu->device_id);
    }
    fprintf(w->out, "\n[%s]\n", section);
    if (gpu->memory_bytes > 0) {
        put_value(w, "memory_bytes", gpu->memory_bytes, bytes, DL_EVIDENCE_MEASURED,
                  "as the driver reports");
    } else {
        put_gap(w, section, "memory_bytes", "its data sheet");
    }
    put_rates(w, section, gpu);
    free(section);
    free(name);
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
    dl_link_list links = dl_link_list_make(w->box);
    for (size_t i = 0; i < links.count; i++) {
        const dl_link_section *link = &links.items[i];
        fprintf(w->out, "\n; %s\n[link %s]\n", link->comment, link->name);
        if (link->bytes_per_s > 0) {
            put_value(w, "bytes_per_s", link->bytes_per_s, gb_per_s, link->evidence, "");
        } else {
            char *section = dl_format("link %s", link->name);
            put_gap(w, section, "bytes_per_s", "of each direction, see above");
            free(section);
        }
        put_value(w, "latency_ns", link->latency_ns, us, DL_EVIDENCE_ASSUMED, "");
    }
    dl_link_list_free(&links);
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
        put_value(w, "memory_bytes", box->memory_bytes, bytes, DL_EVIDENCE_MEASURED,
                  "as the system reports");
    }
    if (box->socket_memory_bytes_per_s > 0) {
        put_value(w, "memory_bytes_per_s", box->socket_memory_bytes_per_s, gb_per_s,
                  DL_EVIDENCE_MEASURED, "of a socket: triad a = b + s c on all cores");
    } else {
        put_gap(w, "host", "memory_bytes_per_s",
                "of a socket: dlprof machine --measure, or channels x rate of its memory");
    }
    fprintf(w->out,
            "; root_bytes_per_s: of all devices of a socket, each direction; measure copies "
            "to several GPUs\n");
    if (box->sockets > 1) fprintf(w->out, "socket_link        = %s\n", DL_LINK_OF_SOCKETS);
}

static void write_switches(const writer *w)
{
    const dl_box *box = w->box;
    if (!box->places_known) {
        fprintf(w->out, "\n; The system does not tell to which socket all devices belong: they are "
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
        fprintf(w->out, "\n; The driver told nothing about the GPUs: ");
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
        char *name = model_name(gpu);
        fprintf(w->out, next - first > 1 ? "\n[gpus %d-%d]   ;" : "\n[gpus %d]   ;", first,
                next - 1);
        for (int i = first; i < next; i++)
            fprintf(w->out, " %s", box->gpus[i].bus_id);
        fprintf(w->out, "\nmodel  = %s\n", name);
        put_place(w, gpu->parent);
        put_link(w, &gpu->link);
        free(name);
    }
}

static void write_nics(const writer *w)
{
    int number = 0;
    for (int i = 0; i < w->box->nic_count; i++) {
        const dl_box_nic *nic = &w->box->nics[i];
        if (nic->port_bytes_per_s <= 0) {
            fprintf(w->out, "\n; %s at %s left out: no link, or its rate is not told\n", nic->name,
                    nic->bus_id);
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

/* One section for each number of lanes. */
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
