/* The keys of machine files, their quantities as a list, and functions that all readers of sections
 * need. */
#include "common/machine.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/keys.h"
#include "common/machine_internal.h"
#include "common/names.h"
#include "common/units.h"

/* Plausible ranges, wider than those of existing hardware: rates from a modem to a rack's crossbar,
 * arithmetic from a microcontroller to an exascale machine. */
#define RATES DL_DIMENSION_BYTES_PER_S, 1e3, 1e15
#define FLOPS DL_DIMENSION_FLOP_PER_S, 1e6, 1e18
#define SIZES DL_DIMENSION_BYTES, 1e6, 1e15
#define TIMES DL_DIMENSION_NS, 0, 1e9
#define SHARE DL_DIMENSION_PURE, 1e-3, 1
#define SLOWDOWN DL_DIMENSION_PURE, 1, 1e3
#define FACTOR DL_DIMENSION_PURE, 0.01, 100
#define CAPABILITY DL_DIMENSION_PURE, 1, 99
#define PRICE DL_DIMENSION_PURE, 0, 1e5
#define OVERSUBSCRIPTION DL_DIMENSION_PURE, 1, 1e3
#define TAKEN DL_DIMENSION_PURE, 0, 0.99
#define SENT DL_DIMENSION_BYTES, 1, 1e15
#define PERIODS DL_DIMENSION_NS, 1e3, 1e13

const char *const dl_fabric_kind_names[] = {"none",  "fat_tree", "rail", "dragonfly",
                                            "torus", "switches", NULL};
const char *const dl_fabric_spreadings[] = {"ideal", "ecmp", NULL};
const char *const dl_fabric_placements[] = {"packed", "scattered", NULL};
const char *const dl_fabric_orders[] = {"nodes", "switches", NULL};
const char *const dl_arithmetic_names[DL_ARITHMETICS + 1] = {"fp32", "tf32", "fp16",
                                                             "bf16", "fp8",  "nvfp4"};
const char *const dl_product_pass_names[DL_PRODUCT_PASSES + 1] = {"forward", "data", "weight"};
const char *const dl_move_names[DL_MOVES + 1] = {"move", "norm", "activation", "loss", "update"};
static const char *const peers[] = {"none", "switch", "socket", "all", NULL};
static const char *const libraries[] = {"other", "nccl", NULL};
const char *const dl_nccl_versions[] = {"default", "2.4",  "2.5",  "2.6",  "2.7",  "2.8",  "2.9",
                                        "2.10",    "2.11", "2.12", "2.13", "2.14", "2.15", "2.16",
                                        "2.17",    "2.18", "2.19", "2.20", "2.21", "2.22", "2.23",
                                        "2.24",    "2.25", "2.26", "2.27", "2.28", "2.29", NULL};

#define QUANTITY(section, name, owner, type, member, dimension_and_range, required, words) \
    QUANTITY_(section, name, owner, type, member, dimension_and_range, required, words, false)
/* A number that affects times: it may have bounds, and costs may override it. */
#define TIMED(section, name, owner, type, member, dimension_and_range, required, words) \
    QUANTITY_(section, name, owner, type, member, dimension_and_range, required, words, true)
#define QUANTITY_(section, name, owner, type, member, dimension, low, high, required, words,     \
                  bounds_)                                                                       \
    {                                                                                            \
        section, name, DL_KEY_QUANTITY, dimension, low, high, NULL, NULL, NULL, required, owner, \
            offsetof(type, member), 0, .help = words, .bounds = bounds_                          \
    }
#define WHOLE(section, name, owner, type, member, low, high, fallback, required, words)          \
    {                                                                                            \
        section, name, DL_KEY_INT, DL_DIMENSION_PURE, low, high, NULL, NULL, fallback, required, \
            owner, offsetof(type, member), 0, .help = words                                      \
    }
#define FABRIC(member) .owner = OF_MACHINE, .offset = offsetof(dl_machine, fabric.member)
#define NETWORK(member) .owner = OF_NETWORK, .offset = offsetof(dl_machine, member)
/* The key `source`: source of a section's numbers with bounds. */
#define SOURCE(section) \
    OWN(section, "source", "text", false, "source of the numbers with bounds in this section")
/* The three numbers for the products of one pass. */
#define PRODUCTS(pass, index, words)                                                              \
    QUANTITY("kernels *", pass "_flop_per_s", OF_KERNELS, dl_gpu_kernels,                         \
             products[index].flop_per_s, FLOPS, true, words),                                     \
        QUANTITY("kernels *", pass "_bytes_per_s", OF_KERNELS, dl_gpu_kernels,                    \
                 products[index].bytes_per_s, RATES, true, "rate of their operands and results"), \
        QUANTITY("kernels *", pass "_ns", OF_KERNELS, dl_gpu_kernels, products[index].fixed_ns,   \
                 TIMES, true, "fixed time of each")
/* The two numbers of a kind of moves, and of a pass of attention. */
#define MOVES(name, kind, required, words, fixed_words)                                            \
    QUANTITY("kernels *", name "_bytes_per_s", OF_KERNELS, dl_gpu_kernels,                         \
             moves[kind].bytes_per_s, RATES, required, words),                                     \
        QUANTITY("kernels *", name "_ns", OF_KERNELS, dl_gpu_kernels, moves[kind].fixed_ns, TIMES, \
                 required, fixed_words)
#define ATTENTION(name, pass, words)                                                            \
    QUANTITY("kernels *", name "_flop_per_s", OF_KERNELS, dl_gpu_kernels,                       \
             attention[pass].flop_per_s, FLOPS, false, words),                                  \
        QUANTITY("kernels *", name "_ns", OF_KERNELS, dl_gpu_kernels, attention[pass].fixed_ns, \
                 TIMES, false, "fixed time of each")
/* A key that the reader of its section looks up. */
#define OWN(section, name, form, required, words)                                                  \
    {                                                                                              \
        section, name, DL_KEY_OWN, DL_DIMENSION_PURE, 0, 0, NULL, form, NULL, required, OF_NOBODY, \
            0, 0, .help = words                                                                    \
    }

static const dl_key rows[] = {
    OWN("machine", "schema", "1", true, "version of this format"),
    {"machine", "name", DL_KEY_TEXT, .required = true, .owner = OF_MACHINE,
     .offset = offsetof(dl_machine, name), .form = "text",
     .help = "name of the machine in results"},
    WHOLE("machine", "nodes", OF_MACHINE, dl_machine, nodes, 1, DL_MACHINE_MAX_NODES, "1", false,
          "nodes, all equal except those of [nodes ..]"),
    QUANTITY("machine", "price_usd_per_hour", OF_KIND, dl_node_kind, price_usd_per_hour, PRICE,
             false, "price of a node"),
    QUANTITY("machine", "gpu_price_usd_per_hour", OF_KIND, dl_node_kind, gpu_price_usd_per_hour,
             PRICE, false, "price of each GPU in use, in place of a price for the node"),
    {"machine", "peer", DL_KEY_CHOICE, .choices = peers, .required = true, .owner = OF_KIND,
     .offset = offsetof(dl_node_kind, peer),
     .help = "GPUs of a node that copy to each other directly: none, those below one PCIe switch, "
             "those of one socket, or all. Other copies go through host memory"},
    TIMED("machine", "staged_bytes_per_s", OF_KIND, dl_node_kind, staged_bytes_per_s, RATES, false,
          "rate of one copy between GPUs of a node through host memory; default: as the links and "
          "[shm] allow"),
    {"machine", "gpudirect", DL_KEY_FLAG, .fallback = "no", .owner = OF_KIND,
     .offset = offsetof(dl_node_kind, gpudirect),
     .help = "NICs read and write GPU memory "
             "directly (GPUDirect RDMA)"},
    {"machine", "collectives", DL_KEY_CHOICE, .choices = libraries, .fallback = "other",
     .owner = OF_MACHINE, .offset = offsetof(dl_machine, library),
     .help = "`algorithm = auto` is NCCL's choice, with its constants in place of missing "
             "[protocol]s, or the fastest of the [protocol]s"},
    {"machine", "nccl", DL_KEY_CHOICE, .choices = dl_nccl_versions, .fallback = "default",
     .form = "default, 2.4 to 2.29", .owner = OF_MACHINE, .offset = offsetof(dl_machine, nccl),
     .help = "a number implies collectives = nccl. Default: 2.26. PyTorch before 1.7 has 2.4, "
             "before 1.10 2.7, before 1.13 2.10, 2.0 2.14, 2.1 2.18, 2.3 2.20, 2.5 2.21, 2.7 2.26"},
    SOURCE("machine"),
    QUANTITY("gpu_model *", "memory_bytes", OF_MODEL, dl_gpu_model, memory_bytes, SIZES, true,
             "memory of the GPU"),
    TIMED("gpu_model *", "memory_bytes_per_s", OF_MODEL, dl_gpu_model, memory_bytes_per_s, RATES,
          true, "memory bandwidth, reads and writes together"),
    QUANTITY("gpu_model *", "fp32_flop_per_s", OF_MODEL, dl_gpu_model, fp32_flop_per_s, FLOPS, true,
             "peak rate in fp32"),
    QUANTITY("gpu_model *", "tf32_flop_per_s", OF_MODEL, dl_gpu_model, tf32_flop_per_s, FLOPS,
             false, "peak rate in tf32"),
    QUANTITY("gpu_model *", "fp16_flop_per_s", OF_MODEL, dl_gpu_model, fp16_flop_per_s, FLOPS,
             false, "peak rate in fp16"),
    QUANTITY("gpu_model *", "bf16_flop_per_s", OF_MODEL, dl_gpu_model, bf16_flop_per_s, FLOPS,
             false, "peak rate in bf16; default: the fp16 rate if the GPU has tf32"),
    QUANTITY("gpu_model *", "fp8_flop_per_s", OF_MODEL, dl_gpu_model, fp8_flop_per_s, FLOPS, false,
             "peak rate in fp8"),
    QUANTITY("gpu_model *", "nvfp4_flop_per_s", OF_MODEL, dl_gpu_model, nvfp4_flop_per_s, FLOPS,
             false, "peak rate in nvfp4"),
    QUANTITY("gpu_model *", "compute_capability", OF_MODEL, dl_gpu_model, compute_capability,
             CAPABILITY, false, "compute capability, for NCCL's constants and protocols"),
    TIMED("gpu_model *", "clock_frac", OF_MODEL, dl_gpu_model, clock_frac, SHARE, false,
          "clock under load over that of the peak rates, for estimates; default: 1"),
    SOURCE("gpu_model *"),
    PRODUCTS("forward", DL_PRODUCT_FORWARD, "rate of the forward pass's products"),
    PRODUCTS("data", DL_PRODUCT_DATA, "rate of products for input gradients"),
    PRODUCTS("weight", DL_PRODUCT_WEIGHT, "rate of products for weight gradients"),
    MOVES("move", DL_MOVE_PLAIN, true, "rate of kernels that only move data, reads and writes",
          "fixed time of each"),
    MOVES("norm", DL_MOVE_NORM, false, "rate of layer norms; default: move_bytes_per_s",
          "fixed time of each"),
    MOVES("activation", DL_MOVE_ACTIVATION, false,
          "rate of activations such as GELU; default: move_bytes_per_s", "fixed time of each"),
    MOVES("loss", DL_MOVE_LOSS, false, "rate of the softmax of a loss; default: move_bytes_per_s",
          "fixed time of each"),
    MOVES("update", DL_MOVE_UPDATE, false,
          "rate of the optimizer's update; default: move_bytes_per_s", "fixed time of each"),
    ATTENTION(
        "attention_forward", 0,
        "rate of fused attention; default: in fp32 that of products, else an estimate by GPU"),
    ATTENTION("attention_backward", 1, "rate of its backward pass"),
    TIMED("kernels *", "sustained", OF_KERNELS, dl_gpu_kernels, sustained, FACTOR, false,
          "a layer's time in a loop over the sum of its kernels' times; default: 1"),
    QUANTITY("kernels *", "launch_ns", OF_KERNELS, dl_gpu_kernels, launch_ns, TIMES, false,
             "host time to launch a kernel from C: a lower bound of what is assumed"),
    TIMED("link *", "bytes_per_s", OF_CLASS, dl_link_class, bytes_per_s, RATES, true,
          "achievable rate in each direction"),
    TIMED("link *", "duplex_bytes_per_s", OF_CLASS, dl_link_class, duplex_bytes_per_s, RATES, false,
          "rate of both directions together; default: no limit"),
    TIMED("link *", "latency_ns", OF_CLASS, dl_link_class, latency_ns, TIMES, true,
          "latency of a message"),
    SOURCE("link *"),
    WHOLE("host", "sockets", OF_KIND, dl_node_kind, sockets, 1, 64, "1", false,
          "sockets of a node"),
    {"host", "amd", DL_KEY_FLAG, .fallback = "no", .owner = OF_KIND,
     .offset = offsetof(dl_node_kind, amd),
     .help = "AMD's processors, for which NCCL has other constants"},
    WHOLE("host", "cores", OF_KIND, dl_node_kind, cores, 1, 4096, NULL, false, "cores of a node"),
    QUANTITY("host", "memory_bytes", OF_KIND, dl_node_kind, memory_bytes, SIZES, false,
             "memory of a node"),
    TIMED("host", "memory_bytes_per_s", OF_KIND, dl_node_kind, memory_bytes_per_s, RATES, true,
          "memory bandwidth of a socket, reads and writes together"),
    TIMED("host", "root_bytes_per_s", OF_KIND, dl_node_kind, root_bytes_per_s, RATES, false,
          "rate of all devices of a socket together, each direction; default: no limit"),
    TIMED("host", "server_bytes_per_s", OF_KIND, dl_node_kind, server_bytes_per_s, RATES, false,
          "rate of a server process that serves workers on several nodes, both directions "
          "together; default: no limit"),
    OWN("host", "socket_link", "name of a [link]", false,
        "link between the sockets; required if there are several"),
    SOURCE("host"),
    OWN("switch *", "parent", "socketN, or name of a [switch]", true, "parent of this PCIe switch"),
    OWN("switch *", "link", "name of a [link]", true, "link of the switch to its parent"),
    OWN("gpus *", "model", "name of a [gpu_model]", true, "model of these GPUs ([gpus 0-3])"),
    OWN("gpus *", "parent", "socketN, or name of a [switch]", true, "parent of these GPUs"),
    OWN("gpus *", "link", "name of a [link]", true, "link of each GPU to the parent"),
    OWN("nodes *", "kind", "name", false,
        "kind of these nodes ([nodes 0, 2-3], from 0), whose sections are [... of NAME]; this or "
        "model is required"),
    OWN("nodes *", "model", "name of a [gpu_model]", false,
        "model of all GPUs in these nodes, if nothing else differs"),
    OWN("nics *", "parent", "socketN, or name of a [switch]", true, "parent of the NICs"),
    OWN("nics *", "link", "name of a [link]", true, "link of each NIC to the parent"),
    OWN("nics *", "port", "name of a [link]", true, "link of each NIC to the network"),
    OWN("nvlinks *", "link", "name of a [link]", true, "one lane"),
    {"nvlinks *", "lanes", DL_KEY_INT, .low = 1, .high = 64, .fallback = "1", .owner = OF_NVLINKS,
     .offset = offsetof(dl_nvlink, lanes), .help = "lanes of a pair"},
    OWN("nvlinks *", "pairs", "a-b, c-d, ...", true, "connected GPUs"),
    OWN("nvswitch", "link", "name of a [link]", true, "link of each GPU to it"),
    TIMED("nvswitch", "sum_frac", OF_KIND, dl_node_kind, nvswitch_sum_frac, SHARE, false,
          "fraction of the link's rate at which it reduces (NVLink SHARP); default: it does not"),
    SOURCE("nvswitch"),
    TIMED("shm", "bytes_per_s", OF_KIND, dl_node_kind, shm_bytes_per_s, RATES, false,
          "rate of a GPU to others through host memory, both directions together (NCCL without "
          "NVLink, PCIe switch or peer access; copies without peer access; to other nodes without "
          "gpudirect); default: by `peer` and links"),
    SOURCE("shm"),
    TIMED("overlap", "inside_slowdown", OF_KIND, dl_node_kind, overlap_slowdown, SLOWDOWN, false,
          "minimum slowdown of computing during collectives inside a node, beside [overlap] "
          "slowdown of the costs"),
    SOURCE("overlap"),
    DL_NETWORK_ROWS(NETWORK, 0, "1"),
    SOURCE("network"),
    DL_FABRIC_ROWS(FABRIC, 0),
    OWN("netswitch *", "parent", "name of a [netswitch]", false,
        "parent, with [fabric] topology = switches; only the root has none"),
    OWN("netswitch *", "nodes", "a, b-c, ...", false, "slots connected to this switch, from 0"),
    QUANTITY("netswitch *", "bytes_per_s", OF_NET_SWITCH, dl_net_switch, uplink_bytes_per_s, RATES,
             false,
             "rate of all uplinks, each direction; default: the rate below over oversubscription"),
    QUANTITY("netswitch *", "oversubscription", OF_NET_SWITCH, dl_net_switch, oversubscription,
             OVERSUBSCRIPTION, false, "rate below over rate of the uplinks; default: 1"),
    {"netswitch *", "uplinks", DL_FABRIC_WHOLE(1, 4096), .owner = OF_NET_SWITCH,
     .offset = offsetof(dl_net_switch, uplinks),
     .help = "uplinks that spreading = ecmp tells apart; default: as many as have a port's rate, "
             "1 with bytes_per_s"},
    QUANTITY("netswitch *", "background_frac", OF_NET_SWITCH, dl_net_switch, background_frac, TAKEN,
             false, "fraction of the uplinks that other jobs use; default: that of [fabric]"),
    OWN("traffic *", "from", "a, b-c, ...", true,
        "nodes that send: GPU i of each to GPU i of its counterpart in `to`"),
    OWN("traffic *", "to", "a, b-c, ...", true, "nodes that receive, as many"),
    QUANTITY("traffic *", "bytes", OF_TRAFFIC, dl_traffic, bytes, SENT, true,
             "sent by a node each time"),
    QUANTITY("traffic *", "every_ns", OF_TRAFFIC, dl_traffic, every_ns, PERIODS, true,
             "between two starts; a longer transfer delays the next one"),
    QUANTITY("site *", "bytes_per_s", OF_SITE, dl_site, bytes_per_s, RATES, false,
             "rate to other sites, each direction; default: no limit. Sites are equal parts of the "
             "nodes, in the order of the sections"),
    QUANTITY("site *", "latency_ns", OF_SITE, dl_site, latency_ns, TIMES, false,
             "one-way latency to the network of sites: two sites' sum is half of their round-trip "
             "time; default: 0"),
    QUANTITY("between *", "bytes_per_s", OF_SITE_PAIR, dl_site_pair, bytes_per_s, RATES, false,
             "rate between two sites ([between paris tokyo]), each direction, besides their own "
             "limits; default: no limit"),
    QUANTITY("between *", "latency_ns", OF_SITE_PAIR, dl_site_pair, latency_ns, TIMES, false,
             "additional one-way latency; default: 0"),
    SOURCE("tcp"),
    TIMED("protocol *", "launch_ns", OF_PROTOCOL, dl_protocol, launch_ns, TIMES, true,
          "time to launch a collective"),
    TIMED("protocol *", "hop_ns", OF_PROTOCOL, dl_protocol, hop_ns, TIMES, true,
          "latency of a hop inside a node, besides the links'"),
    TIMED("protocol *", "network_hop_ns", OF_PROTOCOL, dl_protocol, network_hop_ns, TIMES, true,
          "latency of a hop between nodes, besides the links'"),
    TIMED("protocol *", "bandwidth_frac", OF_PROTOCOL, dl_protocol, bandwidth_frac, SHARE, true,
          "fraction of the links' rates that it reaches"),
    SOURCE("protocol *"),
};
static const char *const made[] = {"kernels *", NULL};

const dl_keys dl_machine_keys = {rows, DL_LENGTH(rows), NULL, made};

/* Visits the numbers of one part: its quantities that may have bounds, whose rows have this
 * owner. */
static void visit_part(void *part, int owner, const char *name, dl_machine_visit_fn visit,
                       void *user)
{
    for (size_t i = 0; i < DL_LENGTH(rows); i++) {
        const dl_key *key = &rows[i];
        if (key->owner != owner || !key->bounds) continue;
        const size_t kind = strcspn(key->section, " ");
        DL_AUTOFREE char *section = name != NULL
                                        ? dl_format("%.*s %s", (int)kind, key->section, name)
                                        : dl_strdup(key->section);
        visit(user, section, key, (dl_quantity *)(void *)((char *)part + key->offset));
    }
}

/* Visits the numbers of a kind: in section "host of t4" if the kind's own sections determine the
 * number, else in "host". */
static void visit_kind(dl_node_kind *kind, dl_machine_visit_fn visit, void *user)
{
    uint64_t bit = 1;
    for (size_t k = 0; k < DL_LENGTH(rows); k++) {
        const dl_key *key = &rows[k];
        if (key->owner != OF_KIND) continue;
        if (key->bounds) {
            DL_AUTOFREE char *section = (kind->own & bit) != 0
                                            ? dl_format("%s of %s", key->section, kind->name)
                                            : dl_strdup(key->section);
            visit(user, section, key, (dl_quantity *)(void *)((char *)kind + key->offset));
        }
        bit <<= 1;
    }
}

void dl_machine_each(dl_machine *machine, dl_machine_visit_fn visit, void *user)
{
    for (int i = 0; i < machine->model_count; i++)
        visit_part(&machine->models[i], OF_MODEL, machine->models[i].name, visit, user);
    for (int i = 0; i < machine->class_count; i++)
        visit_part(&machine->classes[i], OF_CLASS, machine->classes[i].name, visit, user);
    for (int i = 0; i < machine->kind_count; i++)
        visit_kind(&machine->kinds[i], visit, user);
    visit_part(machine, OF_NETWORK, NULL, visit, user);
    for (int i = 0; i < machine->protocol_count; i++)
        visit_part(&machine->protocols[i], OF_PROTOCOL, machine->protocols[i].name, visit, user);
}

dl_status dl_machine_read_name(const dl_machine_reader *r, const char *section, const char *key,
                               const void *parts, int count, size_t size, int *index)
{
    const dl_ini_entry *entry = NULL;
    dl_status status = dl_keys_need(r->ini, section, key, &entry, r->err);
    if (status != DL_OK) return status;
    DL_AUTOFREE const char **names = dl_calloc((size_t)count, sizeof *names, "names");
    for (int i = 0; i < count; i++)
        names[i] = *(char *const *)(const void *)((const char *)parts + (size_t)i * size);
    *index = dl_names_find(entry->value, names, (size_t)count);
    if (*index < 0) {
        char hint[256];
        dl_names_hint(hint, sizeof hint, entry->value, names, (size_t)count);
        status = dl_ini_error(r->ini, entry, DL_ERR_NAME, r->err, "unknown name%s", hint);
    }
    return status;
}

bool dl_machine_parse_range(const char *text, int count, int *first, int *last)
{
    char *copy = dl_strdup(text), *dash = strchr(copy, '-');
    if (dash != NULL) *dash = '\0';
    int64_t low = 0, high = 0;
    bool good = dl_parse_int(copy, 0, count - 1, &low, NULL) == DL_OK &&
                dl_parse_int(dash ? dash + 1 : copy, low, count - 1, &high, NULL) == DL_OK;
    free(copy);
    *first = (int)low;
    *last = (int)high;
    return good;
}

dl_status dl_machine_fail(const dl_machine_reader *r, const dl_ini_section *section,
                          const char *text)
{
    return dl_error_set_at(r->err, DL_ERR_RANGE, r->ini->path, section->line, "[%s]: %s",
                           section->name, text);
}

dl_status dl_machine_each_section(const dl_machine_reader *r, const char *kind,
                                  dl_status (*read)(const dl_machine_reader *,
                                                    const dl_ini_section *, const char *))
{
    size_t length = strlen(kind), count = 0;
    for (size_t i = 0; i < r->ini->section_count; i++) {
        const dl_ini_section *section = &r->ini->sections[i];
        if (strncmp(section->name, kind, length) != 0 || section->name[length] != ' ') continue;
        bool again = false;
        for (size_t j = 0; j < i && !again; j++)
            again = strcmp(r->ini->sections[j].name, section->name) == 0;
        if (again) continue;
        if (count++ == DL_MACHINE_MAX_PARTS) {
            return dl_machine_fail(r, section, "too many sections of this sort");
        }
        dl_status status = read(r, section, section->name + length + 1);
        if (status != DL_OK) return status;
    }
    return DL_OK;
}
