#include "common/machine.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/file.h"
#include "common/ini.h"
#include "common/keys.h"
#include "common/machine_internal.h"
#include "common/names.h"
#include "common/units.h"

#define DL_MACHINE_SCHEMA 1
#define MTU_BYTES 1500 /* MTU of Ethernet */

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

/* Like dl_machine_read_name, among the link classes. */
static dl_status machine_read_class(const dl_machine_reader *r, const char *section,
                                    const char *key, int *index)
{
    return dl_machine_read_name(r, section, key, r->machine->classes, r->machine->class_count,
                                sizeof *r->machine->classes, index);
}

/* Reads the key "parent": socketN or the name of a switch. */
static dl_status machine_read_parent(const dl_machine_reader *r, const char *section, int *place)
{
    const dl_node_kind *n = r->node;
    size_t sockets = (size_t)n->sockets, count = sockets + (size_t)n->switch_count;
    DL_AUTOFREE char **names = dl_calloc(count, sizeof *names, "places");
    for (size_t i = 0; i < sockets; i++)
        names[i] = dl_format("socket%zu", i);
    for (size_t i = sockets; i < count; i++)
        names[i] = n->switches[i - sockets].name;
    dl_status status =
        dl_machine_read_name(r, section, "parent", names, (int)count, sizeof *names, place);
    for (size_t i = 0; i < sockets; i++)
        free(names[i]);
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

/* --- checks ----------------------------------------------------------------------------------- */

/* Checks that the parents of every switch lead to a socket, within DL_MACHINE_MAX_DEPTH levels. */
static dl_status check_switches(const dl_machine_reader *r)
{
    const dl_node_kind *n = r->node;
    for (int i = 0; i < n->switch_count; i++) {
        int place = n->sockets + i, depth = 0;
        while (place >= n->sockets && depth <= n->switch_count) {
            place = dl_machine_parent(n, place);
            depth++;
        }
        if (place < n->sockets && depth <= DL_MACHINE_MAX_DEPTH) continue;
        return dl_error_set_at(r->err, DL_ERR_RANGE, r->ini->path, 0,
                               place >= n->sockets
                                   ? "[switch %s] is not connected to a socket: its parents form a "
                                     "ring"
                                   : "[switch %s] lies too deep in the tree",
                               n->switches[i].name);
    }
    return DL_OK;
}

/* Checks that a node has valid switches, a GPU and at most one price, and that several nodes have
 * NICs. Returns DL_ERR_RANGE or DL_ERR_DATA. */
static dl_status check_node(const dl_machine_reader *r)
{
    const dl_node_kind *n = r->node;
    dl_status status = check_switches(r);
    if (status != DL_OK) return status;
    if (n->gpu_count == 0) {
        return dl_error_set_at(r->err, DL_ERR_DATA, r->ini->path, 0,
                               "the machine has no [gpus ..]");
    }
    if (n->price_usd_per_hour.known && n->gpu_price_usd_per_hour.known) {
        const dl_ini_entry *entry = dl_ini_find(r->ini, "machine", "gpu_price_usd_per_hour");
        return dl_ini_error(r->ini, entry, DL_ERR_DATA, r->err,
                            "price_usd_per_hour is given too: give only one");
    }
    if (r->machine->nodes > 1 && n->nic_count == 0) {
        const dl_ini_entry *entry = dl_ini_find(r->ini, "machine", "nodes");
        return dl_ini_error(r->ini, entry, DL_ERR_DATA, r->err,
                            "the nodes are not connected: no [nics ..]");
    }
    return DL_OK;
}

/* Checks the switches between nodes. */
static dl_status check_fabric(const dl_machine_reader *r)
{
    dl_error why = {0};
    const dl_status status = dl_machine_check_fabric(r->machine, &why);
    return status == DL_OK ? DL_OK
                           : dl_error_set_at(r->err, status, r->ini->path,
                                             dl_ini_section_line(r->ini, "fabric"), "%s", why.text);
}

int dl_machine_site(const dl_machine *machine, int node)
{
    return (int)((int64_t)node * machine->site_count / machine->nodes);
}

static void free_sites(dl_machine *machine)
{
    for (int i = 0; i < machine->site_count; i++)
        free(machine->sites[i].name);
    free(machine->sites);
    free(machine->site_pairs);
    machine->sites = NULL;
    machine->site_pairs = NULL;
    machine->site_count = machine->site_pair_count = 0;
}

void dl_machine_set_sites(dl_machine *machine, int count)
{
    free_sites(machine);
    machine->sites = dl_calloc((size_t)count, sizeof *machine->sites, "sites");
    while (machine->site_count < count) {
        dl_site *site = &machine->sites[machine->site_count++];
        site->name = dl_format("%d", machine->site_count);
    }
}

void dl_machine_set_site_latency(dl_machine *machine, double ns)
{
    for (int i = 0; i < machine->site_count; i++)
        machine->sites[i].latency_ns = (dl_quantity){.value = ns / 2, .known = true};
    for (int i = 0; i < machine->site_pair_count; i++)
        machine->site_pairs[i].latency_ns = (dl_quantity){0};
}

int dl_machine_domains(const dl_machine *machine)
{
    return machine->site_count > 0 ? machine->site_count : machine->nodes;
}

int dl_machine_domain(const dl_machine *machine, int node)
{
    return machine->site_count > 0 ? dl_machine_site(machine, node) : node;
}

int dl_machine_nccl(const dl_machine *machine)
{
    if (machine->nccl > 0) return DL_NCCL_OLDEST_MINOR + machine->nccl - 1;
    return machine->library == DL_LIBRARY_NCCL ? DL_NCCL_DEFAULT_MINOR : 0;
}

void dl_machine_free(dl_machine *machine)
{
    dl_machine_free_kinds(machine);
    for (int i = 0; i < machine->model_count; i++)
        free(machine->models[i].name);
    for (int i = 0; i < machine->class_count; i++)
        free(machine->classes[i].name);
    for (int i = 0; i < machine->protocol_count; i++)
        free(machine->protocols[i].name);
    free(machine->models);
    free(machine->classes);
    for (int i = 0; i < machine->source_count; i++) {
        free(machine->sources[i].section);
        free(machine->sources[i].text);
    }
    free(machine->sources);
    free_sites(machine);
    free(machine->protocols);
    for (int i = 0; i < machine->fabric.switch_count; i++)
        free(machine->fabric.switches[i].name);
    free(machine->fabric.switches);
    free(machine->fabric.switch_of);
    for (int i = 0; i < machine->fabric.traffic_count; i++) {
        free(machine->fabric.traffic[i].name);
        free(machine->fabric.traffic[i].from);
        free(machine->fabric.traffic[i].to);
    }
    free(machine->fabric.traffic);
    free(machine->fabric.slots);
    free(machine->name);
    free(machine->path);
    *machine = (dl_machine){0};
}

static dl_status read_model(const dl_machine_reader *r, const dl_ini_section *section,
                            const char *name)
{
    dl_machine *m = r->machine;
    dl_gpu_model *part = &DL_APPEND(m->models, m->model_count, "GPU models");
    *part = (dl_gpu_model){.name = dl_strdup(name)};
    return dl_keys_read(&dl_machine_keys, OF_MODEL, r->ini, section->name, part, r->err);
}

/* Checks that each rate has its fixed time, and that attention has both passes. */
static dl_status check_kernels(const dl_machine_reader *r, const dl_ini_section *section,
                               const dl_gpu_kernels *kernels)
{
    const dl_attention_rates *forward = &kernels->attention[0], *backward = &kernels->attention[1];
    for (int k = 0; k < DL_MOVES; k++)
        if (kernels->moves[k].bytes_per_s.known != kernels->moves[k].fixed_ns.known)
            return dl_error_set_at(r->err, DL_ERR_RANGE, r->ini->path, section->line,
                                   "[%s]: %s_bytes_per_s and %s_ns belong together", section->name,
                                   dl_move_names[k], dl_move_names[k]);
    if (forward->flop_per_s.known != forward->fixed_ns.known ||
        backward->flop_per_s.known != forward->fixed_ns.known ||
        backward->fixed_ns.known != forward->fixed_ns.known) {
        return dl_machine_fail(r, section,
                               "attention_forward and attention_backward have flop_per_s and ns "
                               "each, which belong together");
    }
    return DL_OK;
}

static dl_status read_kernels(const dl_machine_reader *r, const dl_ini_section *section,
                              const char *name)
{
    dl_machine *m = r->machine;
    const char *space = strrchr(name, ' ');
    const int arithmetic =
        space != NULL ? dl_names_find(space + 1, dl_arithmetic_names, DL_FP8) : -1;
    if (arithmetic < 0) {
        return dl_machine_fail(r, section,
                               "expected the name of a [gpu_model], and fp32, tf32, fp16 or bf16");
    }
    for (int i = 0; i < m->model_count; i++) {
        dl_gpu_model *model = &m->models[i];
        if (strlen(model->name) != (size_t)(space - name) ||
            strncmp(model->name, name, strlen(model->name)) != 0) {
            continue;
        }
        if (model->clock_frac.known) {
            return dl_machine_fail(r, section,
                                   "these times were measured at the clock under load: leave "
                                   "clock_frac of [gpu_model] out");
        }
        dl_gpu_kernels *kernels = &model->kernels[arithmetic];
        kernels->known = true;
        const dl_status status =
            dl_keys_read(&dl_machine_keys, OF_KERNELS, r->ini, section->name, kernels, r->err);
        return status == DL_OK ? check_kernels(r, section, kernels) : status;
    }
    return dl_machine_fail(r, section, "there is no [gpu_model] of this name");
}

static dl_status read_link(const dl_machine_reader *r, const dl_ini_section *section,
                           const char *name)
{
    dl_machine *m = r->machine;
    dl_link_class *part = &DL_APPEND(m->classes, m->class_count, "link classes");
    *part = (dl_link_class){.name = dl_strdup(name)};
    return dl_keys_read(&dl_machine_keys, OF_CLASS, r->ini, section->name, part, r->err);
}

static dl_status read_protocol(const dl_machine_reader *r, const dl_ini_section *section,
                               const char *name)
{
    dl_machine *m = r->machine;
    const char *space = strchr(name, ' ');
    if (space != NULL && strcmp(space + 1, "ring") != 0 && strcmp(space + 1, "tree") != 0) {
        return dl_machine_fail(r, section,
                               "expected a name, and 'ring' or 'tree' if it is for one of them");
    }
    if (strlen(name) >= DL_PROTOCOL_NAME_BYTES)
        return dl_machine_fail(r, section, "the name is too long");
    dl_protocol *part = &DL_APPEND(m->protocols, m->protocol_count, "protocols");
    *part = (dl_protocol){.name = dl_strdup(name)};
    return dl_keys_read(&dl_machine_keys, OF_PROTOCOL, r->ini, section->name, part, r->err);
}

static dl_status read_site(const dl_machine_reader *r, const dl_ini_section *section,
                           const char *name)
{
    dl_machine *m = r->machine;
    dl_site *site = &DL_APPEND(m->sites, m->site_count, "sites");
    *site = (dl_site){.name = dl_strdup(name)};
    if (strchr(name, ' ') != NULL)
        return dl_machine_fail(r, section, "a site's name has no spaces");
    return dl_keys_read(&dl_machine_keys, OF_SITE, r->ini, section->name, site, r->err);
}

/* Returns the site named by the first `length` bytes of `name`; -1 if there is none. */
static int find_site(const dl_machine *m, const char *name, size_t length)
{
    for (int i = 0; i < m->site_count; i++) {
        if (strlen(m->sites[i].name) == length && memcmp(m->sites[i].name, name, length) == 0) {
            return i;
        }
    }
    return -1;
}

static dl_status read_site_pair(const dl_machine_reader *r, const dl_ini_section *section,
                                const char *name)
{
    dl_machine *m = r->machine;
    const char *space = strchr(name, ' ');
    if (space == NULL) return dl_machine_fail(r, section, "expected the names of two sites");
    const int one = find_site(m, name, (size_t)(space - name));
    const int other = find_site(m, space + 1, strlen(space + 1));
    if (one < 0 || other < 0 || one == other) {
        return dl_machine_fail(r, section, "the two names are not those of two [site]s");
    }
    dl_site_pair *pair = &DL_APPEND(m->site_pairs, m->site_pair_count, "pairs of sites");
    *pair = (dl_site_pair){.a = one < other ? one : other, .b = one < other ? other : one};
    for (int i = 0; i + 1 < m->site_pair_count; i++) {
        if (m->site_pairs[i].a == pair->a && m->site_pairs[i].b == pair->b) {
            return dl_machine_fail(r, section, "these two sites have a section already");
        }
    }
    return dl_keys_read(&dl_machine_keys, OF_SITE_PAIR, r->ini, section->name, pair, r->err);
}

static dl_status name_switch(const dl_machine_reader *r, const dl_ini_section *section,
                             const char *name)
{
    dl_node_kind *n = r->node;
    if (strncmp(name, "socket", strlen("socket")) == 0) {
        return dl_machine_fail(r, section, "names that begin with 'socket' are of sockets");
    }
    DL_APPEND(n->switches, n->switch_count, "PCIe switches") =
        (dl_pcie_switch){.name = dl_strdup(name)};
    return DL_OK;
}

static dl_status read_switch(const dl_machine_reader *r, const dl_ini_section *section,
                             const char *name)
{
    dl_node_kind *n = r->node;
    int i = 0;
    while (strcmp(n->switches[i].name, name) != 0)
        i++;
    dl_status status = machine_read_parent(r, section->name, &n->switches[i].parent);
    return status != DL_OK ? status
                           : machine_read_class(r, section->name, "link", &n->switches[i].link);
}

/* Reads the numbers of a section [gpus 0-3] or [nics 0-3]; the first must be `count`, the number of
 * parts in earlier sections. */
static dl_status read_numbers(const dl_machine_reader *r, const dl_ini_section *section,
                              const char *name, const char *part, int count, int *last)
{
    int first = 0;
    char text[80];
    if (!dl_machine_parse_range(name, DL_MACHINE_MAX_PARTS, &first, last)) {
        snprintf(text, sizeof text, "expected the number of a %s or a range such as 0-3", part);
        return dl_machine_fail(r, section, text);
    }
    if (first == count) return DL_OK;
    snprintf(text, sizeof text, "%ss must be numbered from 0 on without gaps", part);
    return dl_machine_fail(r, section, text);
}

static dl_status read_gpus(const dl_machine_reader *r, const dl_ini_section *section,
                           const char *name)
{
    const dl_machine *m = r->machine;
    dl_node_kind *n = r->node;
    int last = 0;
    dl_gpu gpu = {0};
    dl_status status;
    if ((status = read_numbers(r, section, name, "GPU", n->gpu_count, &last)) ||
        (status = dl_machine_read_name(r, section->name, "model", m->models, m->model_count,
                                       sizeof *m->models, &gpu.model)) ||
        (status = machine_read_parent(r, section->name, &gpu.parent)) ||
        (status = machine_read_class(r, section->name, "link", &gpu.link))) {
        return status;
    }
    while (n->gpu_count <= last)
        DL_APPEND(n->gpus, n->gpu_count, "GPUs") = gpu;
    return DL_OK;
}

static dl_status read_nics(const dl_machine_reader *r, const dl_ini_section *section,
                           const char *name)
{
    dl_node_kind *n = r->node;
    int last = 0;
    dl_nic nic = {0};
    dl_status status;
    if ((status = read_numbers(r, section, name, "NIC", n->nic_count, &last)) ||
        (status = machine_read_parent(r, section->name, &nic.parent)) ||
        (status = machine_read_class(r, section->name, "link", &nic.link)) ||
        (status = machine_read_class(r, section->name, "port", &nic.port))) {
        return status;
    }
    while (n->nic_count <= last)
        DL_APPEND(n->nics, n->nic_count, "NICs") = nic;
    return DL_OK;
}

static dl_status add_nvlink(const dl_machine_reader *r, const dl_ini_entry *entry, const char *pair,
                            dl_nvlink nvlink)
{
    dl_node_kind *n = r->node;
    bool good = strchr(pair, '-') != NULL &&
                dl_machine_parse_range(pair, DL_MACHINE_MAX_PARTS, &nvlink.a, &nvlink.b);
    if (!good || nvlink.a == nvlink.b || nvlink.b >= n->gpu_count) {
        return dl_ini_error(r->ini, entry, DL_ERR_RANGE, r->err,
                            "'%s' is no pair of GPUs a-b with a < b < %d", pair, n->gpu_count);
    }
    for (int i = 0; i < n->nvlink_count; i++) {
        if (n->nvlinks[i].a != nvlink.a || n->nvlinks[i].b != nvlink.b) continue;
        return dl_ini_error(r->ini, entry, DL_ERR_RANGE, r->err, "the pair %s comes twice", pair);
    }
    DL_APPEND(n->nvlinks, n->nvlink_count, "NVLinks") = nvlink;
    return DL_OK;
}

static dl_status read_nvlinks(const dl_machine_reader *r, const dl_ini_section *section,
                              const char *name)
{
    (void)name; /* only distinguishes sections */
    dl_nvlink nvlink = {0};
    const dl_ini_entry *entry = NULL;
    dl_status status;
    if ((status = machine_read_class(r, section->name, "link", &nvlink.link)) ||
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

static dl_status read_host(const dl_machine_reader *r)
{
    dl_node_kind *n = r->node;
    const bool given = dl_ini_find(r->ini, "host", "socket_link") != NULL;
    n->socket_link = n->nvswitch_link = -1;
    dl_status status = dl_keys_read(&dl_machine_keys, OF_KIND, r->ini, NULL, n, r->err);
    if (status != DL_OK || (n->sockets <= 1 && !given)) return status;
    return machine_read_class(r, "host", "socket_link", &n->socket_link);
}

dl_status dl_machine_read_node(const dl_machine_reader *r)
{
    dl_status status;
    if ((status = read_host(r)) || (status = dl_machine_each_section(r, "switch", name_switch)) ||
        (status = dl_machine_each_section(r, "switch", read_switch)) ||
        (status = dl_machine_each_section(r, "gpus", read_gpus)) ||
        (status = dl_machine_each_section(r, "nics", read_nics)) ||
        (status = dl_machine_each_section(r, "nvlinks", read_nvlinks))) {
        return status;
    }
    if (dl_ini_section_line(r->ini, "nvswitch") > 0) {
        status = machine_read_class(r, "nvswitch", "link", &r->node->nvswitch_link);
        if (status != DL_OK) return status;
    }
    return check_node(r);
}

void dl_machine_take_tcp(dl_machine *machine)
{
    dl_tcp *tcp = &machine->tcp;
    tcp->given = true;
    if (tcp->mtu_bytes.known) return;
    tcp->mtu_bytes = (dl_quantity){.value = MTU_BYTES, .known = true, .origin = DL_ORIGIN_ASSUMED};
}

static dl_status read_network(const dl_machine_reader *r)
{
    dl_machine *m = r->machine;
    const dl_status status = dl_keys_read(&dl_machine_keys, OF_NETWORK, r->ini, NULL, m, r->err);
    m->tcp.time_factor = 1;
    if (dl_ini_section_line(r->ini, "tcp") > 0) dl_machine_take_tcp(m);
    return status;
}

static void read_sources(const dl_machine_reader *r)
{
    dl_machine *m = r->machine;
    for (size_t i = 0; i < r->whole->count; i++) {
        const dl_ini_entry *entry = &r->whole->entries[i];
        if (strcmp(entry->key, "source") != 0) continue;
        DL_APPEND(m->sources, m->source_count, "sources") =
            (dl_machine_source){dl_strdup(entry->section), dl_strdup(entry->value)};
    }
}

const char *dl_machine_source_of(const dl_machine *machine, const char *section)
{
    for (int i = 0; i < machine->source_count; i++)
        if (strcmp(machine->sources[i].section, section) == 0) return machine->sources[i].text;
    return NULL;
}

static dl_status read_all(const dl_machine_reader *r)
{
    dl_machine *m = r->machine;
    dl_status status;
    int64_t schema = 0;
    if ((status = dl_keys_check(&dl_machine_keys, r->ini, r->err)) ||
        (status = dl_ini_get_int(r->ini, "machine", "schema", DL_MACHINE_SCHEMA, DL_MACHINE_SCHEMA,
                                 NULL, &schema, r->err)) ||
        (status = dl_keys_read(&dl_machine_keys, OF_MACHINE, r->ini, NULL, m, r->err)) ||
        (status = dl_machine_each_section(r, "link", read_link)) ||
        (status = dl_machine_each_section(r, "gpu_model", read_model)) ||
        (status = dl_machine_each_section(r, "kernels", read_kernels)) ||
        (status = dl_machine_each_section(r, "protocol", read_protocol)) ||
        (status = dl_machine_each_section(r, "site", read_site)) ||
        (status = dl_machine_each_section(r, "between", read_site_pair)) ||
        (status = read_network(r)) || (status = dl_machine_read_fabric(r)) ||
        (status = dl_machine_each_section(r, "netswitch", dl_machine_name_net_switch)) ||
        (status = dl_machine_each_section(r, "netswitch", dl_machine_read_net_switch)) ||
        (status = dl_machine_each_section(r, "traffic", dl_machine_read_traffic)) ||
        (status = dl_machine_read_kinds(r)) || (status = dl_machine_check_net_switches(r))) {
        return status;
    }
    read_sources(r);
    return check_fabric(r);
}

dl_status dl_machine_read_text(dl_machine *machine, const char *name, const char *text,
                               size_t bytes, dl_error *err)
{
    DL_AUTO(dl_ini_free) dl_ini ini = {0};
    dl_status status = dl_ini_read_text(&ini, name, text, bytes, err);
    if (status != DL_OK) return status;
    dl_machine read = {.path = dl_strdup(name)};
    dl_ini common = dl_machine_view(&ini, NULL);
    status =
        read_all(&(dl_machine_reader){.machine = &read, .ini = &common, .whole = &ini, .err = err});
    dl_machine_free_view(&common);
    if (status == DL_OK) {
        *machine = read;
    } else {
        dl_machine_free(&read);
    }
    return status;
}

dl_status dl_machine_read(dl_machine *machine, const char *path, dl_error *err)
{
    DL_AUTOFREE char *text = NULL;
    size_t bytes;
    dl_status status = dl_file_read(path, &text, &bytes, err);
    if (status != DL_OK) return status;
    return dl_machine_read_text(machine, path, text, bytes, err);
}

dl_arithmetic dl_gpu_model_products(const dl_gpu_model *model, dl_arithmetic arithmetic)
{
    const dl_quantity *fp16 = &model->fp16_flop_per_s, *fp32 = &model->fp32_flop_per_s;
    const bool slow = fp16->known && fp32->known && fp16->value < fp32->value;
    return arithmetic == DL_FP16 && slow ? DL_FP32 : arithmetic;
}

const dl_quantity *dl_gpu_model_flop_per_s(const dl_gpu_model *model, dl_arithmetic arithmetic)
{
    const dl_quantity *const rates[DL_ARITHMETICS] = {
        &model->fp32_flop_per_s, &model->tf32_flop_per_s, &model->fp16_flop_per_s,
        &model->bf16_flop_per_s, &model->fp8_flop_per_s,  &model->nvfp4_flop_per_s};
    const bool as_fp16 =
        arithmetic == DL_BF16 && !model->bf16_flop_per_s.known && model->tf32_flop_per_s.known;
    return rates[as_fp16 ? DL_FP16 : dl_gpu_model_products(model, arithmetic)];
}
