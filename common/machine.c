#include "common/machine.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/file.h"
#include "common/ini.h"
#include "common/machine_internal.h"
#include "common/names.h"
#include "common/sort.h"

#define DL_MACHINE_SCHEMA 1
#define MTU_BYTES 1500 /* MTU of Ethernet */

/* Returns the run of a node: the last run that starts at or before it. */
static const dl_node_run *run_of(const dl_machine *m, int node)
{
    size_t after = 0;
    DL_BISECT(after, (size_t)m->run_count, m->runs[after].first <= node);
    return &m->runs[after - 1];
}

int dl_machine_kind(const dl_machine *machine, int node)
{
    return machine->run_count == 1 ? machine->runs[0].kind : run_of(machine, node)->kind;
}

const dl_node_kind *dl_machine_node(const dl_machine *machine, int node)
{
    return &machine->kinds[dl_machine_kind(machine, node)];
}

int dl_machine_gpus_before(const dl_machine *machine, int nodes)
{
    const dl_node_run *run = run_of(machine, nodes);
    return run->first_gpu + (nodes - run->first) * machine->kinds[run->kind].gpu_count;
}

int dl_machine_gpus(const dl_machine *machine)
{
    return dl_machine_gpus_before(machine, machine->nodes);
}

int64_t dl_machine_nodes_for(const dl_machine *machine, int64_t gpus)
{
    if (gpus <= dl_machine_gpus(machine)) return machine->nodes;
    const dl_node_run *last = &machine->runs[machine->run_count - 1];
    int index;
    if (gpus < last->first_gpu) return dl_machine_find_gpu(machine, (int)gpus - 1, &index) + 1;
    const int per_node = machine->kinds[last->kind].gpu_count;
    return last->first + (gpus - last->first_gpu + per_node - 1) / per_node;
}

int dl_machine_most_gpus(const dl_machine *machine)
{
    int most = 0;
    for (int r = 0; r < machine->run_count && machine->runs[r].first < machine->nodes; r++) {
        const int gpus = machine->kinds[machine->runs[r].kind].gpu_count;
        if (gpus > most) most = gpus;
    }
    return most;
}

int dl_machine_fewest_nics(const dl_machine *machine)
{
    int fewest = INT32_MAX;
    for (int r = 0; r < machine->run_count && machine->runs[r].first < machine->nodes; r++) {
        const int nics = machine->kinds[machine->runs[r].kind].nic_count;
        if (nics < fewest) fewest = nics;
    }
    return fewest;
}

int dl_machine_find_gpu(const dl_machine *machine, int number, int *index)
{
    size_t after = 0;
    DL_BISECT(after, (size_t)machine->run_count, machine->runs[after].first_gpu <= number);
    const dl_node_run *run = &machine->runs[after - 1];
    const int per_node = machine->kinds[run->kind].gpu_count, left = number - run->first_gpu;
    *index = left % per_node;
    return run->first + left / per_node;
}

int dl_machine_model_number(const dl_machine *machine, int node, int index)
{
    return dl_machine_node(machine, node)->gpus[index].model;
}

const dl_gpu_model *dl_machine_model(const dl_machine *machine, int node, int index)
{
    return &machine->models[dl_machine_model_number(machine, node, index)];
}

static int links_of(const dl_machine *m, int kind)
{
    return m->kinds[kind].name != NULL ? kind : 0;
}

int dl_machine_links_kind(const dl_machine *machine, int node)
{
    return links_of(machine, dl_machine_kind(machine, node));
}

bool dl_machine_has_unlike_nodes(const dl_machine *machine)
{
    const int first = links_of(machine, machine->runs[0].kind);
    for (int r = 1; r < machine->run_count && machine->runs[r].first < machine->nodes; r++)
        if (links_of(machine, machine->runs[r].kind) != first) return true;
    return false;
}

static bool has_port(const dl_node_kind *node, int class)
{
    for (int i = 0; i < node->nic_count; i++)
        if (node->nics[i].port == class) return true;
    return false;
}

bool dl_machine_has_unlike_ports(const dl_machine *machine)
{
    const dl_node_kind *first = &machine->kinds[machine->runs[0].kind];
    for (int r = 1; r < machine->run_count && machine->runs[r].first < machine->nodes; r++) {
        const dl_node_kind *node = &machine->kinds[machine->runs[r].kind];
        for (int i = 0; i < node->nic_count; i++)
            if (!has_port(first, node->nics[i].port)) return true;
    }
    return false;
}

bool dl_machine_has_model(const dl_machine *machine, int model)
{
    bool found = false;
    for (int r = 0; r < machine->run_count && machine->runs[r].first < machine->nodes; r++) {
        const dl_node_kind *node = &machine->kinds[machine->runs[r].kind];
        for (int g = 0; g < node->gpu_count; g++)
            found |= node->gpus[g].model == model;
    }
    return found;
}

int dl_machine_socket(const dl_node_kind *node, int place)
{
    while (place >= node->sockets)
        place = dl_machine_parent(node, place);
    return place;
}

int dl_machine_nvlink(const dl_node_kind *node, int a, int b)
{
    for (int i = 0; i < node->nvlink_count; i++) {
        const dl_nvlink *l = &node->nvlinks[i];
        if ((l->a == a && l->b == b) || (l->a == b && l->b == a)) return i;
    }
    return -1;
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

static void free_kind(dl_node_kind *kind)
{
    for (int i = 0; i < kind->switch_count; i++)
        free(kind->switches[i].name);
    free(kind->switches);
    free(kind->gpus);
    free(kind->nics);
    free(kind->nvlinks);
    free(kind->name);
}

void dl_machine_free(dl_machine *machine)
{
    for (int i = 0; i < machine->kind_count; i++)
        free_kind(&machine->kinds[i]);
    free(machine->kinds);
    free(machine->runs);
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

/* Checks the switches between nodes. */
static dl_status check_fabric(const dl_machine_reader *r)
{
    dl_error why = {0};
    const dl_status status = dl_machine_check_fabric(r->machine, &why);
    return status == DL_OK ? DL_OK
                           : dl_error_set_at(r->err, status, r->ini->path,
                                             dl_ini_section_line(r->ini, "fabric"), "%s", why.text);
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
    DL_SCOPED(dl_ini) ini = {0};
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
