/* The reader of machine files: first the parts are counted and named, then their keys are read (a
 * key may name a part that stands further down), then the whole is checked. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/ini.h"
#include "common/machine.h"
#include "common/machine_reader.h"

/* What keeps a key: its offset is in this struct. */
enum { OF_MACHINE, OF_HOST, OF_MODEL, OF_CLASS, OF_PROTOCOL, OF_NVLINKS, OF_NOBODY };

/* Plausible values, far beyond what is built: from a modem to a rack's crossbar, from a
 * microcontroller's arithmetic to an exascale machine's. */
#define RATES DL_DIMENSION_BYTES_PER_S, 1e3, 1e15
#define FLOPS DL_DIMENSION_FLOP_PER_S, 1e6, 1e18
#define SIZES DL_DIMENSION_BYTES, 1e6, 1e15
#define TIMES DL_DIMENSION_NS, 0, 1e9
#define SHARE DL_DIMENSION_PURE, 1e-3, 1
#define PRICE DL_DIMENSION_PURE, 0, 1e5

static const char *const peers[] = {"none", "switch", "socket", "all", NULL};

#define QUANTITY(section, name, owner, type, member, dimension_and_range, required, words) \
    QUANTITY_(section, name, owner, type, member, dimension_and_range, required, words)
#define QUANTITY_(section, name, owner, type, member, dimension, low, high, required, words)     \
    {                                                                                            \
        section, name, DL_KEY_QUANTITY, dimension, low, high, NULL, NULL, NULL, required, owner, \
            offsetof(type, member), 0, .help = words                                             \
    }
#define WHOLE(section, name, owner, member, low, high, fallback, required, words)                \
    {                                                                                            \
        section, name, DL_KEY_INT, DL_DIMENSION_PURE, low, high, NULL, NULL, fallback, required, \
            owner, offsetof(dl_machine, member), 0, .help = words                                \
    }
/* A key that its section's reader looks up. */
#define OWN(section, name, form, required, words)                                                  \
    {                                                                                              \
        section, name, DL_KEY_OWN, DL_DIMENSION_PURE, 0, 0, NULL, form, NULL, required, OF_NOBODY, \
            0, 0, .help = words                                                                    \
    }

static const dl_key rows[] = {
    OWN("machine", "schema", "1", true, "version of this format"),
    {"machine", "name", DL_KEY_TEXT, .required = true, .owner = OF_MACHINE,
     .offset = offsetof(dl_machine, name), .form = "text", .help = "as results call it"},
    WHOLE("machine", "nodes", OF_MACHINE, nodes, 1, DL_MACHINE_MAX_NODES, "1", false, "all alike"),
    QUANTITY("machine", "price_usd_per_hour", OF_MACHINE, dl_machine, price_usd_per_hour, PRICE,
             false, "of a node"),
    {"machine", "peer", DL_KEY_CHOICE, .choices = peers, .required = true, .owner = OF_MACHINE,
     .offset = offsetof(dl_machine, peer),
     .help = "GPUs of a node between which copies need not go through host memory"},
    {"machine", "gpudirect", DL_KEY_FLAG, .fallback = "no", .owner = OF_MACHINE,
     .offset = offsetof(dl_machine, gpudirect), .help = "NICs and GPUs copy without host memory"},
    QUANTITY("gpu_model *", "memory_bytes", OF_MODEL, dl_gpu_model, memory_bytes, SIZES, true,
             "of the GPU"),
    QUANTITY("gpu_model *", "memory_bytes_per_s", OF_MODEL, dl_gpu_model, memory_bytes_per_s, RATES,
             true, "of that memory, reads and writes together"),
    QUANTITY("gpu_model *", "fp32_flop_per_s", OF_MODEL, dl_gpu_model, fp32_flop_per_s, FLOPS, true,
             "peak rate"),
    QUANTITY("gpu_model *", "tf32_flop_per_s", OF_MODEL, dl_gpu_model, tf32_flop_per_s, FLOPS,
             false, "peak rate"),
    QUANTITY("gpu_model *", "fp16_flop_per_s", OF_MODEL, dl_gpu_model, fp16_flop_per_s, FLOPS,
             false, "peak rate"),
    QUANTITY("link *", "bytes_per_s", OF_CLASS, dl_link_class, bytes_per_s, RATES, true,
             "each direction: what programs get"),
    QUANTITY("link *", "duplex_bytes_per_s", OF_CLASS, dl_link_class, duplex_bytes_per_s, RATES,
             false, "both directions together; without it there is no such limit"),
    QUANTITY("link *", "latency_ns", OF_CLASS, dl_link_class, latency_ns, TIMES, true,
             "of a message"),
    WHOLE("host", "sockets", OF_HOST, sockets, 1, 64, "1", false, "of a node"),
    WHOLE("host", "cores", OF_HOST, cores, 1, 4096, NULL, false, "of a node"),
    QUANTITY("host", "memory_bytes", OF_HOST, dl_machine, memory_bytes, SIZES, false, "of a node"),
    QUANTITY("host", "memory_bytes_per_s", OF_HOST, dl_machine, memory_bytes_per_s, RATES, true,
             "of a socket, reads and writes together"),
    QUANTITY("host", "root_bytes_per_s", OF_HOST, dl_machine, root_bytes_per_s, RATES, false,
             "all devices of a socket, each direction; without it there is no such limit"),
    OWN("host", "socket_link", "name of a [link]", false,
        "between sockets; needed where there are several"),
    OWN("switch *", "parent", "socketN, or name of a [switch]", true,
        "what is above this PCIe switch"),
    OWN("switch *", "link", "name of a [link]", true, "the uplink"),
    OWN("gpus *", "model", "name of a [gpu_model]", true,
        "of the GPUs that the section numbers ([gpus 0-3])"),
    OWN("gpus *", "parent", "socketN, or name of a [switch]", true, "what is above them"),
    OWN("gpus *", "link", "name of a [link]", true, "to the parent"),
    OWN("nics *", "parent", "socketN, or name of a [switch]", true, "what is above the NICs"),
    OWN("nics *", "link", "name of a [link]", true, "to the parent"),
    OWN("nics *", "port", "name of a [link]", true, "to the network"),
    OWN("nvlinks *", "link", "name of a [link]", true, "one lane"),
    {"nvlinks *", "lanes", DL_KEY_INT, .low = 1, .high = 64, .fallback = "1", .owner = OF_NVLINKS,
     .offset = offsetof(dl_nvlink, lanes), .help = "in parallel"},
    OWN("nvlinks *", "pairs", "a-b, c-d, ...", true, "GPUs that the lanes join"),
    OWN("nvswitch", "link", "name of a [link]", true, "of each GPU to the crossbar"),
    QUANTITY(
        "nvswitch", "sum_frac", OF_MACHINE, dl_machine, nvswitch_sum_frac, SHARE, false,
        "part of the link's rate at which the crossbar sums (NVLink SHARP); without it, it cannot"),
    QUANTITY("network", "bytes_per_s", OF_HOST, dl_machine, network_bytes_per_s, RATES, false,
             "of the core that joins the nodes; without it, it never limits"),
    QUANTITY("protocol *", "launch_ns", OF_PROTOCOL, dl_protocol, launch_ns, TIMES, true,
             "of a call of the collectives library"),
    QUANTITY("protocol *", "hop_ns", OF_PROTOCOL, dl_protocol, hop_ns, TIMES, true,
             "of each hop inside a node, beyond the links'"),
    QUANTITY("protocol *", "network_hop_ns", OF_PROTOCOL, dl_protocol, network_hop_ns, TIMES, true,
             "of each hop between nodes, beyond the links'"),
    QUANTITY("protocol *", "bandwidth_frac", OF_PROTOCOL, dl_protocol, bandwidth_frac, SHARE, true,
             "part of the links' rates that it reaches"),
};
const dl_keys dl_machine_keys = {rows, sizeof rows / sizeof *rows};

static bool has_section(const dl_ini *ini, const char *name)
{
    for (size_t i = 0; i < ini->section_count; i++) {
        if (strcmp(ini->sections[i].name, name) == 0) return true;
    }
    return false;
}

static dl_status check_part(const dl_machine_reader *r, const dl_ini_section *section, int count)
{
    if (count < DL_MACHINE_MAX_PARTS) return DL_OK;
    return dl_machine_fail(r, section, "too many sections of this sort");
}

static dl_status read_model(const dl_machine_reader *r, const dl_ini_section *section,
                            const char *name)
{
    dl_machine *m = r->machine;
    dl_status status = check_part(r, section, m->model_count);
    if (status != DL_OK) return status;
    size_t i = (size_t)m->model_count++;
    m->models = dl_realloc(m->models, i + 1, sizeof *m->models, "GPU models");
    m->models[i] = (dl_gpu_model){.name = dl_strdup(name)};
    return dl_keys_read(&dl_machine_keys, OF_MODEL, r->ini, section->name, &m->models[i], r->err);
}

static dl_status read_link(const dl_machine_reader *r, const dl_ini_section *section,
                           const char *name)
{
    dl_machine *m = r->machine;
    dl_status status = check_part(r, section, m->class_count);
    if (status != DL_OK) return status;
    size_t i = (size_t)m->class_count++;
    m->classes = dl_realloc(m->classes, i + 1, sizeof *m->classes, "link classes");
    m->classes[i] = (dl_link_class){.name = dl_strdup(name)};
    return dl_keys_read(&dl_machine_keys, OF_CLASS, r->ini, section->name, &m->classes[i], r->err);
}

static dl_status read_protocol(const dl_machine_reader *r, const dl_ini_section *section,
                               const char *name)
{
    dl_machine *m = r->machine;
    dl_status status = check_part(r, section, m->protocol_count);
    if (status != DL_OK) return status;
    size_t i = (size_t)m->protocol_count++;
    m->protocols = dl_realloc(m->protocols, i + 1, sizeof *m->protocols, "protocols");
    m->protocols[i] = (dl_protocol){.name = dl_strdup(name)};
    return dl_keys_read(&dl_machine_keys, OF_PROTOCOL, r->ini, section->name, &m->protocols[i],
                        r->err);
}

static dl_status name_switch(const dl_machine_reader *r, const dl_ini_section *section,
                             const char *name)
{
    dl_machine *m = r->machine;
    if (strncmp(name, "socket", strlen("socket")) == 0) {
        return dl_machine_fail(r, section, "names that begin with 'socket' are of sockets");
    }
    dl_status status = check_part(r, section, m->switch_count);
    if (status != DL_OK) return status;
    size_t i = (size_t)m->switch_count++;
    m->switches = dl_realloc(m->switches, i + 1, sizeof *m->switches, "PCIe switches");
    m->switches[i] = (dl_pcie_switch){.name = dl_strdup(name)};
    return DL_OK;
}

static dl_status read_switch(const dl_machine_reader *r, const dl_ini_section *section,
                             const char *name)
{
    dl_machine *m = r->machine;
    int i = 0;
    while (strcmp(m->switches[i].name, name) != 0)
        i++;
    dl_status status = dl_machine_read_parent(r, section->name, &m->switches[i].parent);
    return status != DL_OK ? status
                           : dl_machine_read_class(r, section->name, "link", &m->switches[i].link);
}

static dl_status read_gpus(const dl_machine_reader *r, const dl_ini_section *section,
                           const char *name)
{
    dl_machine *m = r->machine;
    int first = 0, last = 0;
    dl_gpu gpu = {0};
    if (!dl_machine_parse_range(name, &first, &last)) {
        return dl_machine_fail(r, section, "expected the number of a GPU or a range such as 0-3");
    }
    dl_status status;
    if ((status = dl_machine_read_name(r, section->name, "model", m->models, m->model_count,
                                       sizeof *m->models, &gpu.model)) ||
        (status = dl_machine_read_parent(r, section->name, &gpu.parent)) ||
        (status = dl_machine_read_class(r, section->name, "link", &gpu.link))) {
        return status;
    }
    if (first != m->gpu_count) {
        return dl_machine_fail(r, section, "GPUs must be numbered from 0 on without gaps");
    }
    m->gpus = dl_realloc(m->gpus, (size_t)last + 1, sizeof *m->gpus, "GPUs");
    while (m->gpu_count <= last)
        m->gpus[m->gpu_count++] = gpu;
    return DL_OK;
}

static dl_status read_nics(const dl_machine_reader *r, const dl_ini_section *section,
                           const char *name)
{
    dl_machine *m = r->machine;
    int first = 0, last = 0;
    dl_nic nic = {0};
    if (!dl_machine_parse_range(name, &first, &last)) {
        return dl_machine_fail(r, section, "expected the number of a NIC or a range such as 0-3");
    }
    dl_status status;
    if ((status = dl_machine_read_parent(r, section->name, &nic.parent)) ||
        (status = dl_machine_read_class(r, section->name, "link", &nic.link)) ||
        (status = dl_machine_read_class(r, section->name, "port", &nic.port))) {
        return status;
    }
    if (first != m->nic_count) {
        return dl_machine_fail(r, section, "NICs must be numbered from 0 on without gaps");
    }
    m->nics = dl_realloc(m->nics, (size_t)last + 1, sizeof *m->nics, "NICs");
    while (m->nic_count <= last)
        m->nics[m->nic_count++] = nic;
    return DL_OK;
}

static dl_status add_nvlink(const dl_machine_reader *r, const dl_ini_entry *entry, const char *pair,
                            dl_nvlink nvlink)
{
    dl_machine *m = r->machine;
    bool good = strchr(pair, '-') != NULL && dl_machine_parse_range(pair, &nvlink.a, &nvlink.b);
    if (!good || nvlink.a == nvlink.b || nvlink.b >= m->gpu_count) {
        return dl_ini_error(r->ini, entry, DL_ERR_RANGE, r->err,
                            "'%s' is no pair of GPUs a-b with a < b < %d", pair, m->gpu_count);
    }
    for (int i = 0; i < m->nvlink_count; i++) {
        if (m->nvlinks[i].a != nvlink.a || m->nvlinks[i].b != nvlink.b) continue;
        return dl_ini_error(r->ini, entry, DL_ERR_RANGE, r->err, "the pair %s comes twice", pair);
    }
    size_t i = (size_t)m->nvlink_count++;
    m->nvlinks = dl_realloc(m->nvlinks, i + 1, sizeof *m->nvlinks, "NVLinks");
    m->nvlinks[i] = nvlink;
    return DL_OK;
}

static dl_status read_nvlinks(const dl_machine_reader *r, const dl_ini_section *section,
                              const char *name)
{
    (void)name; /* only tells the sections apart */
    dl_nvlink nvlink = {0};
    const dl_ini_entry *entry = NULL;
    dl_status status;
    if ((status = dl_machine_read_class(r, section->name, "link", &nvlink.link)) ||
        (status =
             dl_keys_read(&dl_machine_keys, OF_NVLINKS, r->ini, section->name, &nvlink, r->err)) ||
        (status = dl_keys_need(r->ini, section->name, "pairs", &entry, r->err))) {
        return status;
    }
    char **pairs = NULL;
    size_t count = 0;
    status = dl_ini_split(r->ini, entry, &pairs, &count, r->err);
    if (status != DL_OK) return status;
    for (size_t i = 0; i < count && status == DL_OK; i++)
        status = add_nvlink(r, entry, pairs[i], nvlink);
    dl_ini_free_list(pairs, count);
    return status;
}

static dl_status read_head(const dl_machine_reader *r)
{
    dl_machine *m = r->machine;
    int64_t schema = 0;
    dl_status status = dl_ini_get_int(r->ini, "machine", "schema", DL_MACHINE_SCHEMA,
                                      DL_MACHINE_SCHEMA, NULL, &schema, r->err);
    if (status == DL_OK) {
        status = dl_keys_read(&dl_machine_keys, OF_MACHINE, r->ini, NULL, m, r->err);
    }
    return status;
}

static dl_status read_host(const dl_machine_reader *r)
{
    dl_machine *m = r->machine;
    const bool given = dl_ini_find(r->ini, "host", "socket_link") != NULL;
    dl_status status = dl_keys_read(&dl_machine_keys, OF_HOST, r->ini, NULL, m, r->err);
    if (status != DL_OK || (m->sockets <= 1 && !given)) return status;
    return dl_machine_read_class(r, "host", "socket_link", &m->socket_link);
}

static dl_status read_all(const dl_machine_reader *r)
{
    dl_machine *m = r->machine;
    m->socket_link = m->nvswitch_link = -1;
    dl_status status;
    if ((status = dl_keys_check(&dl_machine_keys, r->ini, r->err)) || (status = read_head(r)) ||
        (status = dl_machine_each_section(r, "link", read_link)) ||
        (status = dl_machine_each_section(r, "gpu_model", read_model)) ||
        (status = dl_machine_each_section(r, "protocol", read_protocol)) ||
        (status = read_host(r)) || (status = dl_machine_each_section(r, "switch", name_switch)) ||
        (status = dl_machine_each_section(r, "switch", read_switch)) ||
        (status = dl_machine_each_section(r, "gpus", read_gpus)) ||
        (status = dl_machine_each_section(r, "nics", read_nics)) ||
        (status = dl_machine_each_section(r, "nvlinks", read_nvlinks))) {
        return status;
    }
    if (has_section(r->ini, "nvswitch")) {
        status = dl_machine_read_class(r, "nvswitch", "link", &m->nvswitch_link);
        if (status != DL_OK) return status;
    }
    return dl_machine_check_whole(r);
}

static dl_status read_ini(dl_machine *machine, const dl_ini *ini, dl_error *err)
{
    dl_machine read = {.path = dl_strdup(ini->path)};
    const dl_machine_reader r = {&read, ini, err};
    dl_status status = read_all(&r);
    if (status != DL_OK) {
        dl_machine_free(&read);
        return status;
    }
    *machine = read;
    return DL_OK;
}

dl_status dl_machine_read_text(dl_machine *machine, const char *name, const char *text,
                               size_t bytes, dl_error *err)
{
    dl_ini ini = {0};
    dl_status status = dl_ini_read_text(&ini, name, text, bytes, err);
    if (status != DL_OK) return status;
    status = read_ini(machine, &ini, err);
    dl_ini_free(&ini);
    return status;
}

dl_status dl_machine_read(dl_machine *machine, const char *path, dl_error *err)
{
    dl_ini ini = {0};
    dl_status status = dl_ini_read(&ini, path, err);
    if (status != DL_OK) return status;
    status = read_ini(machine, &ini, err);
    dl_ini_free(&ini);
    return status;
}
