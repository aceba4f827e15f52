/* Nodes of a machine file: their inside, and the kind of each node. */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/machine.h"
#include "common/machine_internal.h"
#include "common/names.h"
#include "common/sort.h"

/* --- view of the file for one kind ------------------------------------------------------------ */

/* Types of sections about the inside of a node. All kinds share [machine] and [host], except for
 * keys that a kind's section overrides. For each other type, a kind has either only its own
 * sections or only the common ones; a kind with its own GPUs uses no common [switch], [nvlinks],
 * [nvswitch], [shm] or [overlap]. */
static const char *const sorts[] = {"machine", "host",     "switch", "gpus",    "nics",
                                    "nvlinks", "nvswitch", "shm",    "overlap", NULL};
enum {
    SORT_MACHINE,
    SORT_HOST,
    SORT_SWITCH,
    SORT_GPUS,
    SORT_NICS,
    SORT_NVLINKS,
    SORT_NVSWITCH,
    SORT_SHM,
    SORT_OVERLAP,
    SORTS
};

static int sort_of(const char *section)
{
    const size_t bytes = strcspn(section, " ");
    int sort = 0;
    while (sorts[sort] != NULL &&
           (strlen(sorts[sort]) != bytes || strncmp(sorts[sort], section, bytes) != 0))
        sort++;
    return sort;
}

/* Returns the kind in "gpus 0-3 of t4", NULL if there is none; *bytes is the length of the text
 * before it. */
static const char *kind_of(const char *section, size_t *bytes)
{
    const char *found = NULL;
    *bytes = strlen(section);
    if (sort_of(section) == SORTS) return NULL;
    for (const char *at = section; (at = strstr(at, " of ")) != NULL; at++)
        found = at;
    if (found == NULL) return NULL;
    *bytes = (size_t)(found - section);
    return found + strlen(" of ");
}

const dl_key *dl_machine_find_key(const char *section, const char *name)
{
    size_t bytes;
    (void)kind_of(section, &bytes);
    DL_AUTOFREE char *plain = dl_strndup(section, bytes);
    return dl_keys_find(&dl_machine_keys, plain, name);
}

/* A section of a file and its consecutive entries. */
typedef struct section_part {
    const dl_ini_section *section;
    size_t first, end; /* indices of its entries; end is exclusive */
} section_part;

/* Returns the part of section `number`, given that the entries of earlier sections end at
 * `from`. */
static section_part part_of(const dl_ini *ini, size_t number, size_t from)
{
    section_part part = {&ini->sections[number], from, from};
    while (part.end < ini->count && ini->entries[part.end].section == part.section->name)
        part.end++;
    return part;
}

/* Copies a section into the view: the first `bytes` bytes of its name, and its entries except those
 * with keys in `without`, a NULL-terminated list, or NULL. */
static void take_part(dl_ini *view, const dl_ini *ini, const section_part *part, size_t bytes,
                      const char *const *without)
{
    char *name = dl_strndup(part->section->name, bytes);
    DL_APPEND(view->sections, view->section_count, "sections") =
        (dl_ini_section){name, part->section->line};
    for (size_t i = part->first; i < part->end; i++) {
        dl_ini_entry entry = ini->entries[i];
        bool left_out = false;
        for (size_t k = 0; without != NULL && without[k] != NULL; k++)
            left_out |= strcmp(without[k], entry.key) == 0;
        if (left_out) continue;
        entry.section = name;
        DL_APPEND(view->entries, view->count, "entries") = entry;
    }
}

static const char *const prices[] = {"price_usd_per_hour", "gpu_price_usd_per_hour", NULL};

dl_ini dl_machine_view(const dl_ini *ini, const char *kind)
{
    dl_ini view = {.path = ini->path};
    bool has[SORTS] = {false};
    size_t bytes, head = 0;
    while (head < ini->count && ini->entries[head].section[0] == '\0')
        head++;
    for (size_t i = 0, from = head; i < ini->section_count && kind != NULL; i++) {
        const section_part part = part_of(ini, i, from);
        from = part.end;
        const char *own = kind_of(part.section->name, &bytes);
        if (own == NULL || strcmp(own, kind) != 0) continue;
        take_part(&view, ini, &part, bytes, NULL);
        has[sort_of(part.section->name)] = true;
    }
    has[SORT_SWITCH] |= has[SORT_GPUS];
    has[SORT_NVLINKS] |= has[SORT_GPUS];
    has[SORT_NVSWITCH] |= has[SORT_GPUS];
    has[SORT_SHM] |= has[SORT_GPUS];
    has[SORT_OVERLAP] |= has[SORT_GPUS];
    const bool has_price = dl_ini_find(&view, "machine", prices[0]) != NULL ||
                           dl_ini_find(&view, "machine", prices[1]) != NULL;
    for (size_t i = 0, from = head; i < ini->section_count; i++) {
        const section_part part = part_of(ini, i, from);
        from = part.end;
        const int sort = sort_of(part.section->name);
        if (kind_of(part.section->name, &bytes) != NULL) continue;
        if (kind != NULL && (sort == SORTS || (sort >= SORT_SWITCH && has[sort]))) continue;
        take_part(&view, ini, &part, bytes, sort == SORT_MACHINE && has_price ? prices : NULL);
    }
    for (size_t i = 0; i < head && kind == NULL; i++)
        DL_APPEND(view.entries, view.count, "entries") = ini->entries[i];
    return view;
}

void dl_machine_free_view(dl_ini *view)
{
    for (size_t i = 0; i < view->section_count; i++)
        free(view->sections[i].name);
    free(view->sections);
    free(view->entries);
    *view = (dl_ini){0};
}

/* --- inside of a node ------------------------------------------------------------------------- */

int dl_machine_parent(const dl_node_kind *node, int place)
{
    return place < node->sockets ? -1 : node->switches[place - node->sockets].parent;
}

/* Like dl_machine_read_name, among the link classes. */
static dl_status read_class(const dl_machine_reader *r, const char *section, const char *key,
                            int *index)
{
    return dl_machine_read_name(r, section, key, r->machine->classes, r->machine->class_count,
                                sizeof *r->machine->classes, index);
}

/* Reads the key "parent": socketN or the name of a switch. */
static dl_status read_parent(const dl_machine_reader *r, const char *section, int *place)
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
    dl_status status = read_parent(r, section->name, &n->switches[i].parent);
    return status != DL_OK ? status : read_class(r, section->name, "link", &n->switches[i].link);
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
        (status = read_parent(r, section->name, &gpu.parent)) ||
        (status = read_class(r, section->name, "link", &gpu.link))) {
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
        (status = read_parent(r, section->name, &nic.parent)) ||
        (status = read_class(r, section->name, "link", &nic.link)) ||
        (status = read_class(r, section->name, "port", &nic.port))) {
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
    if ((status = read_class(r, section->name, "link", &nvlink.link)) ||
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
    return read_class(r, "host", "socket_link", &n->socket_link);
}

static dl_status read_inside(const dl_machine_reader *r)
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
        status = read_class(r, "nvswitch", "link", &r->node->nvswitch_link);
        if (status != DL_OK) return status;
    }
    return check_node(r);
}

/* --- numbers of kinds ------------------------------------------------------------------------- */

/* Returns the bits of the numbers that the kind's sections give, or omit by replacing all sections
 * of their type. */
static uint64_t own_numbers(const dl_ini *ini, const char *kind)
{
    uint64_t own = 0, bit = 1;
    bool has[SORTS] = {false};
    size_t bytes;
    for (size_t i = 0; i < ini->section_count; i++) {
        const char *of = kind_of(ini->sections[i].name, &bytes);
        if (of != NULL && strcmp(of, kind) == 0) has[sort_of(ini->sections[i].name)] = true;
    }
    for (size_t k = 0; k < dl_machine_keys.count; k++) {
        const dl_key *key = &dl_machine_keys.rows[k];
        if (key->owner != OF_KIND) continue;
        DL_AUTOFREE char *section = dl_format("%s of %s", key->section, kind);
        const int sort = sort_of(key->section);
        const bool replaced = sort >= SORT_NVSWITCH && (has[SORT_GPUS] || has[sort]);
        if (replaced || dl_ini_find(ini, section, key->name) != NULL) own |= bit;
        bit <<= 1;
    }
    return own;
}

/* --- [nodes ..] ------------------------------------------------------------------------------- */

/* Nodes that a section assigns to a kind. */
typedef struct node_range {
    int first, last, kind;
} node_range;

struct dl_node_ranges {
    node_range *all;
    int count;
};

static void *copy_of(const void *parts, int count, size_t size)
{
    void *copy = dl_calloc((size_t)count, size, "parts of a node");
    if (count > 0) memcpy(copy, parts, (size_t)count * size);
    return copy;
}

/* Returns the index of the kind that differs from kind 0 in having GPUs of the model; adds it if
 * needed. */
static int add_kind_of_model(dl_machine *m, int model)
{
    for (int k = 1; k < m->kind_count; k++)
        if (m->kinds[k].name == NULL && m->kinds[k].gpus[0].model == model) return k;
    dl_node_kind kind = m->kinds[0];
    kind.switches = copy_of(kind.switches, kind.switch_count, sizeof *kind.switches);
    for (int i = 0; i < kind.switch_count; i++)
        kind.switches[i].name = dl_strdup(kind.switches[i].name);
    kind.gpus = copy_of(kind.gpus, kind.gpu_count, sizeof *kind.gpus);
    for (int g = 0; g < kind.gpu_count; g++)
        kind.gpus[g].model = model;
    kind.nics = copy_of(kind.nics, kind.nic_count, sizeof *kind.nics);
    kind.nvlinks = copy_of(kind.nvlinks, kind.nvlink_count, sizeof *kind.nvlinks);
    DL_APPEND(m->kinds, m->kind_count, "kinds of nodes") = kind;
    return m->kind_count - 1;
}

/* Checks that the [machine of NAME] of a kind has only keys that a kind may have. */
static dl_status check_own_keys(const dl_machine_reader *r, const char *kind)
{
    DL_AUTOFREE char *section = dl_format("machine of %s", kind);
    dl_status status = DL_OK;
    for (size_t i = 0; i < r->whole->count && status == DL_OK; i++) {
        const dl_ini_entry *entry = &r->whole->entries[i];
        if (strcmp(entry->section, section) != 0) continue;
        const dl_key *key = dl_keys_find(&dl_machine_keys, "machine", entry->key);
        if (key == NULL || key->owner == OF_KIND) continue;
        status = dl_ini_error(r->whole, entry, DL_ERR_NAME, r->err,
                              "this is of the whole machine: in [machine]");
    }
    return status;
}

/* Reads the inside of a kind's nodes; name = NULL: of nodes without a kind. */
static dl_status read_kind(const dl_machine_reader *r, const char *name)
{
    dl_node_kind kind = {.name = name != NULL ? dl_strdup(name) : NULL};
    dl_ini view = dl_machine_view(r->whole, name);
    const dl_machine_reader own = {
        .machine = r->machine, .node = &kind, .ini = &view, .err = r->err};
    dl_status status = name != NULL ? check_own_keys(r, name) : DL_OK;
    if (status == DL_OK && name != NULL) status = dl_keys_check(&dl_machine_keys, &view, r->err);
    if (status == DL_OK) status = read_inside(&own);
    if (status != DL_OK && name != NULL && r->err != NULL) {
        const size_t used = strlen(r->err->text);
        snprintf(r->err->text + used, sizeof r->err->text - used, " (nodes of kind %s)", name);
    }
    if (name != NULL) kind.own = own_numbers(r->whole, name);
    dl_machine_free_view(&view);
    DL_APPEND(r->machine->kinds, r->machine->kind_count, "kinds of nodes") = kind;
    return status;
}

static bool has_sections(const dl_ini *ini, const char *kind)
{
    size_t bytes;
    for (size_t i = 0; i < ini->section_count; i++) {
        const char *of = kind_of(ini->sections[i].name, &bytes);
        if (of != NULL && strcmp(of, kind) == 0) return true;
    }
    return false;
}

/* Finds the index of a kind by name; reads the kind on first use. */
static dl_status find_kind(const dl_machine_reader *r, const dl_ini_entry *entry, int *number)
{
    const dl_machine *m = r->machine;
    for (int k = 1; k < m->kind_count; k++) {
        *number = k;
        if (m->kinds[k].name != NULL && strcmp(m->kinds[k].name, entry->value) == 0) return DL_OK;
    }
    if (!has_sections(r->whole, entry->value)) {
        return dl_ini_error(r->whole, entry, DL_ERR_NAME, r->err,
                            "no section describes nodes of kind %s, such as [nics 0 of %s]",
                            entry->value, entry->value);
    }
    *number = m->kind_count;
    return read_kind(r, entry->value);
}

/* Adds a section's nodes, "0, 2-3"; each node may be in one section only. */
static dl_status add_ranges(const dl_machine_reader *r, const dl_ini_section *section,
                            const char *name, int kind)
{
    char *copy = dl_strdup(name), *rest = NULL;
    dl_status status = DL_OK;
    for (char *item = strtok_r(copy, ",", &rest); item != NULL && status == DL_OK;
         item = strtok_r(NULL, ",", &rest)) {
        DL_AUTOFREE char *text = dl_strndup_trimmed(item, strlen(item));
        node_range range = {.kind = kind};
        if (!dl_machine_parse_range(text, DL_MACHINE_MAX_NODES, &range.first, &range.last)) {
            status = dl_machine_fail(r, section,
                                     "expected numbers of nodes or ranges, such as 2-3 or 0, 4-5");
        } else if (range.last >= r->machine->nodes) {
            status = dl_machine_fail(r, section, "there are fewer nodes");
        }
        for (int i = 0; i < r->ranges->count && status == DL_OK; i++) {
            const node_range *other = &r->ranges->all[i];
            if (range.last < other->first || range.first > other->last) continue;
            status = dl_machine_fail(r, section, "another section names some of these nodes too");
        }
        if (status == DL_OK) DL_APPEND(r->ranges->all, r->ranges->count, "nodes") = range;
    }
    free(copy);
    return status;
}

static dl_status read_nodes(const dl_machine_reader *r, const dl_ini_section *section,
                            const char *name)
{
    const dl_machine *m = r->machine;
    const dl_ini_entry *kind = dl_ini_find(r->ini, section->name, "kind");
    const dl_ini_entry *model = dl_ini_find(r->ini, section->name, "model");
    int number = 0;
    dl_status status;
    if ((kind == NULL) == (model == NULL)) {
        return dl_machine_fail(r, section, "expected kind or model, one of both");
    }
    if (kind != NULL) {
        status = find_kind(r, kind, &number);
    } else {
        status = dl_machine_read_name(r, section->name, "model", m->models, m->model_count,
                                      sizeof *m->models, &number);
        if (status == DL_OK) number = add_kind_of_model(r->machine, number);
    }
    return status != DL_OK ? status : add_ranges(r, section, name, number);
}

DL_ORDER(compare_ranges, node_range, DL_BY(first));

/* Adds a run that starts at node `first`, unless the kind stays the same; a run that starts there
 * already gets the kind. */
static void add_run(dl_machine *m, int first, int kind)
{
    dl_node_run *last = m->run_count > 0 ? &m->runs[m->run_count - 1] : NULL;
    if (last != NULL && last->first == first) {
        last->kind = kind;
        return;
    }
    if (last != NULL && last->kind == kind) return;
    dl_node_run run = {.first = first, .kind = kind};
    if (last != NULL) {
        run.first_gpu = last->first_gpu + (first - last->first) * m->kinds[last->kind].gpu_count;
    }
    DL_APPEND(m->runs, m->run_count, "runs of nodes") = run;
}

/* Checks that every kind with sections has nodes. */
static dl_status check_used(const dl_machine_reader *r)
{
    const dl_machine *m = r->machine;
    size_t bytes;
    for (size_t i = 0; i < r->whole->section_count; i++) {
        const dl_ini_section *section = &r->whole->sections[i];
        const char *of = kind_of(section->name, &bytes);
        bool found = of == NULL;
        DL_AUTOFREE const char **names =
            dl_calloc((size_t)m->kind_count, sizeof *names, "names of kinds");
        size_t count = 0;
        for (int k = 1; k < m->kind_count && !found; k++) {
            if (m->kinds[k].name == NULL) continue;
            found = strcmp(m->kinds[k].name, of) == 0;
            names[count++] = m->kinds[k].name;
        }
        char hint[200];
        if (!found) dl_names_hint(hint, sizeof hint, of, names, count);
        if (found) continue;
        return dl_error_set_at(r->err, DL_ERR_NAME, r->whole->path, section->line,
                               "[%s]: no [nodes ..] has kind = %s%s", section->name, of,
                               count > 0 ? hint : "");
    }
    return DL_OK;
}

dl_status dl_machine_check_gpus(const dl_machine *machine, dl_error *err)
{
    int most = 0;
    for (int k = 0; k < machine->kind_count; k++)
        if (machine->kinds[k].gpu_count > most) most = machine->kinds[k].gpu_count;
    if ((int64_t)most * machine->nodes <= INT32_MAX) return DL_OK;
    return dl_error_set(err, DL_ERR_RANGE, "%d nodes of up to %d GPUs: more than %d GPUs",
                        machine->nodes, most, INT32_MAX);
}

static dl_status check_gpus(const dl_machine_reader *r)
{
    dl_error why = {0};
    const dl_status status = dl_machine_check_gpus(r->machine, &why);
    if (status == DL_OK) return DL_OK;
    return dl_error_set_at(r->err, status, r->ini->path, dl_ini_section_line(r->ini, "machine"),
                           "%s", why.text);
}

dl_status dl_machine_read_kinds(const dl_machine_reader *reader)
{
    dl_machine *m = reader->machine;
    struct dl_node_ranges ranges = {0};
    dl_machine_reader r = *reader;
    r.ranges = &ranges;
    dl_status status;
    if ((status = read_kind(&r, NULL)) == DL_OK &&
        (status = dl_machine_each_section(&r, "nodes", read_nodes)) == DL_OK &&
        (status = check_used(&r)) == DL_OK && (status = check_gpus(&r)) == DL_OK) {
        if (ranges.count > 0) {
            qsort(ranges.all, (size_t)ranges.count, sizeof *ranges.all, compare_ranges);
        }
        add_run(m, 0, 0);
        for (int i = 0; i < ranges.count; i++) {
            add_run(m, ranges.all[i].first, ranges.all[i].kind);
            add_run(m, ranges.all[i].last + 1, 0);
        }
    }
    free(ranges.all);
    return status;
}
