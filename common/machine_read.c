/* The reader of machine files: first the parts are counted and named, then their keys are read (a
 * key may name a part that stands further down), then the whole is checked. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/ini.h"
#include "common/machine.h"
#include "common/machine_reader.h"

static const dl_machine_field machine_fields[] = {
    {"price_usd_per_hour", offsetof(dl_machine, price_usd_per_hour), DL_DIMENSION_PURE,
     DL_AT_LEAST_ZERO, false},
};
static const dl_machine_field host_fields[] = {
    {"memory_bytes", offsetof(dl_machine, memory_bytes), DL_DIMENSION_BYTES, DL_POSITIVE, false},
    {"memory_bytes_per_s", offsetof(dl_machine, memory_bytes_per_s), DL_DIMENSION_BYTES_PER_S,
     DL_POSITIVE, true},
    {"root_bytes_per_s", offsetof(dl_machine, root_bytes_per_s), DL_DIMENSION_BYTES_PER_S,
     DL_POSITIVE, false},
};
static const dl_machine_field network_fields[] = {
    {"bytes_per_s", offsetof(dl_machine, network_bytes_per_s), DL_DIMENSION_BYTES_PER_S,
     DL_POSITIVE, false},
};
static const dl_machine_field nvswitch_fields[] = {
    {"sum_frac", offsetof(dl_machine, nvswitch_sum_frac), DL_DIMENSION_PURE, DL_FRACTION, false},
};
static const dl_machine_field model_fields[] = {
    {"memory_bytes", offsetof(dl_gpu_model, memory_bytes), DL_DIMENSION_BYTES, DL_POSITIVE, true},
    {"memory_bytes_per_s", offsetof(dl_gpu_model, memory_bytes_per_s), DL_DIMENSION_BYTES_PER_S,
     DL_POSITIVE, true},
    {"fp32_flop_per_s", offsetof(dl_gpu_model, fp32_flop_per_s), DL_DIMENSION_FLOP_PER_S,
     DL_POSITIVE, true},
    {"tf32_flop_per_s", offsetof(dl_gpu_model, tf32_flop_per_s), DL_DIMENSION_FLOP_PER_S,
     DL_POSITIVE, false},
    {"fp16_flop_per_s", offsetof(dl_gpu_model, fp16_flop_per_s), DL_DIMENSION_FLOP_PER_S,
     DL_POSITIVE, false},
};
static const dl_machine_field class_fields[] = {
    {"bytes_per_s", offsetof(dl_link_class, bytes_per_s), DL_DIMENSION_BYTES_PER_S, DL_POSITIVE,
     true},
    {"duplex_bytes_per_s", offsetof(dl_link_class, duplex_bytes_per_s), DL_DIMENSION_BYTES_PER_S,
     DL_POSITIVE, false},
    {"latency_ns", offsetof(dl_link_class, latency_ns), DL_DIMENSION_NS, DL_AT_LEAST_ZERO, true},
};
static const dl_machine_field protocol_fields[] = {
    {"launch_ns", offsetof(dl_protocol, launch_ns), DL_DIMENSION_NS, DL_AT_LEAST_ZERO, true},
    {"hop_ns", offsetof(dl_protocol, hop_ns), DL_DIMENSION_NS, DL_AT_LEAST_ZERO, true},
    {"network_hop_ns", offsetof(dl_protocol, network_hop_ns), DL_DIMENSION_NS, DL_AT_LEAST_ZERO,
     true},
    {"bandwidth_frac", offsetof(dl_protocol, bandwidth_frac), DL_DIMENSION_PURE, DL_FRACTION, true},
};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static dl_status check_names(const dl_ini *ini, dl_error *err)
{
    static const char *const machine[] = {"schema", "name",      "nodes", "price_usd_per_hour",
                                          "peer",   "gpudirect", NULL};
    static const char *const model[] = {"memory_bytes",    "memory_bytes_per_s", "fp32_flop_per_s",
                                        "tf32_flop_per_s", "fp16_flop_per_s",    NULL};
    static const char *const class[] = {"bytes_per_s", "duplex_bytes_per_s", "latency_ns", NULL};
    static const char *const host[] = {
        "sockets",     "cores", "memory_bytes", "memory_bytes_per_s", "root_bytes_per_s",
        "socket_link", NULL};
    static const char *const tree[] = {"parent", "link", NULL};
    static const char *const gpus[] = {"model", "parent", "link", NULL};
    static const char *const nics[] = {"parent", "link", "port", NULL};
    static const char *const nvlinks[] = {"link", "lanes", "pairs", NULL};
    static const char *const nvswitch[] = {"link", "sum_frac", NULL};
    static const char *const network[] = {"bytes_per_s", NULL};
    static const char *const protocol[] = {"launch_ns", "hop_ns", "network_hop_ns",
                                           "bandwidth_frac", NULL};
    static const dl_ini_section_schema schema[] = {
        {"machine", machine}, {"gpu_model *", model},   {"link *", class},
        {"host", host},       {"switch *", tree},       {"gpus *", gpus},
        {"nics *", nics},     {"nvlinks *", nvlinks},   {"nvswitch", nvswitch},
        {"network", network}, {"protocol *", protocol},
    };
    return dl_ini_check(ini, schema, COUNT(schema), err);
}

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
    return dl_machine_read_fields(r, section->name, model_fields, COUNT(model_fields),
                                  &m->models[i]);
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
    return dl_machine_read_fields(r, section->name, class_fields, COUNT(class_fields),
                                  &m->classes[i]);
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
    return dl_machine_read_fields(r, section->name, protocol_fields, COUNT(protocol_fields),
                                  &m->protocols[i]);
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
    static const int64_t one = 1;
    dl_nvlink nvlink = {0};
    int64_t lanes = 0;
    const dl_ini_entry *entry = NULL;
    dl_status status;
    if ((status = dl_machine_read_class(r, section->name, "link", &nvlink.link)) ||
        (status = dl_ini_get_int(r->ini, section->name, "lanes", 1, 64, &one, &lanes, r->err)) ||
        (status = dl_machine_need(r, section->name, "pairs", &entry))) {
        return status;
    }
    nvlink.lanes = (int)lanes;
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
    static const char *const peers[] = {"none", "switch", "socket", "all"};
    static const char *const answers[] = {"no", "yes"};
    static const int64_t one = 1;
    static const int no = 0;
    dl_machine *m = r->machine;
    int64_t schema = 0, nodes = 0;
    int peer = 0, gpudirect = 0;
    const char *name = NULL;
    dl_status status;
    if ((status = dl_ini_get_int(r->ini, "machine", "schema", DL_MACHINE_SCHEMA, DL_MACHINE_SCHEMA,
                                 NULL, &schema, r->err)) ||
        (status = dl_ini_get_string(r->ini, "machine", "name", NULL, &name, r->err)) ||
        (status = dl_ini_get_int(r->ini, "machine", "nodes", 1, DL_MACHINE_MAX_NODES, &one, &nodes,
                                 r->err)) ||
        (status = dl_ini_get_choice(r->ini, "machine", "peer", peers, COUNT(peers), NULL, &peer,
                                    r->err)) ||
        (status = dl_ini_get_choice(r->ini, "machine", "gpudirect", answers, COUNT(answers), &no,
                                    &gpudirect, r->err)) ||
        (status = dl_machine_read_fields(r, "machine", machine_fields, COUNT(machine_fields), m))) {
        return status;
    }
    m->name = dl_strdup(name);
    m->nodes = (int)nodes;
    m->peer = (dl_peer)peer;
    m->gpudirect = gpudirect != 0;
    return DL_OK;
}

static dl_status read_host(const dl_machine_reader *r)
{
    static const int64_t one = 1, none = 0;
    dl_machine *m = r->machine;
    int64_t sockets = 0, cores = 0;
    dl_status status;
    if ((status = dl_ini_get_int(r->ini, "host", "sockets", 1, 64, &one, &sockets, r->err)) ||
        (status = dl_ini_get_int(r->ini, "host", "cores", 1, 4096, &none, &cores, r->err)) ||
        (status = dl_machine_read_fields(r, "host", host_fields, COUNT(host_fields), m))) {
        return status;
    }
    m->sockets = (int)sockets;
    m->cores = (int)cores;
    bool given = dl_ini_find(r->ini, "host", "socket_link") != NULL;
    return sockets > 1 || given ? dl_machine_read_class(r, "host", "socket_link", &m->socket_link)
                                : DL_OK;
}

static dl_status read_all(const dl_machine_reader *r)
{
    dl_machine *m = r->machine;
    m->socket_link = m->nvswitch_link = -1;
    dl_status status;
    if ((status = check_names(r->ini, r->err)) || (status = read_head(r)) ||
        (status = dl_machine_each_section(r, "link", read_link)) ||
        (status = dl_machine_each_section(r, "gpu_model", read_model)) ||
        (status = dl_machine_each_section(r, "protocol", read_protocol)) ||
        (status = read_host(r)) || (status = dl_machine_each_section(r, "switch", name_switch)) ||
        (status = dl_machine_each_section(r, "switch", read_switch)) ||
        (status = dl_machine_each_section(r, "gpus", read_gpus)) ||
        (status = dl_machine_each_section(r, "nics", read_nics)) ||
        (status = dl_machine_each_section(r, "nvlinks", read_nvlinks)) ||
        (status = dl_machine_read_fields(r, "network", network_fields, COUNT(network_fields), m))) {
        return status;
    }
    if (has_section(r->ini, "nvswitch")) {
        if ((status = dl_machine_read_class(r, "nvswitch", "link", &m->nvswitch_link)) ||
            (status = dl_machine_read_fields(r, "nvswitch", nvswitch_fields, COUNT(nvswitch_fields),
                                             m))) {
            return status;
        }
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
