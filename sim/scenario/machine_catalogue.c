#include "sim/scenario/machine_catalogue.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/csv.h"
#include "common/file.h"
#include "common/ini.h"
#include "common/install.h"
#include "common/machine_shm.h"
#include "common/names.h"

#define GPUS_MAX 16
#define NODES_MAX 10000000
#define KINDS_MAX 16 /* of nodes */
#define PORTS_MAX 16 /* of a node */
#define GPUS_OF_A_SOCKET 4

/* NVLink bridges: the part of the data sheet's rate that all-reduces of two GPUs reach; copies reach
 * all but 6 %. */
#define BRIDGE_FRAC 0.5
#define BRIDGE_LOW 0.38
#define BRIDGE_HIGH 0.94
#define BRIDGE_SOURCE                                                                           \
    "all-reduce over bridges: 21 of 50 GB/s on RTX 2080 Ti (NVIDIA/nccl-tests 44), 115 of 300 " \
    "on H100 PCIe (194), 208 of 300 on A100 PCIe (178)"

/* --- the tables ------------------------------------------------------------------------------ */

typedef struct tables {
    dl_csv gpus, instances;
} tables;

static void free_tables(tables *t)
{
    dl_csv_free(&t->gpus);
    dl_csv_free(&t->instances);
}

static dl_status read_table(dl_csv *csv, const char *file, const char *const *columns,
                            dl_error *err)
{
    char *folder = dl_share_path("scenarios/machines"), *path = dl_format("%s/%s", folder, file);
    dl_status status = dl_csv_read(csv, path, err);
    for (size_t c = 0; columns[c] != NULL && status == DL_OK; c++) {
        if (dl_csv_column(csv, columns[c]) >= 0) continue;
        status = dl_error_set_at(err, DL_ERR_DATA, path, 0, "no column %s", columns[c]);
    }
    free(path);
    free(folder);
    return status;
}

/* Links of a bus: the rates of copies as other machine files here have them, with their sources. */
static const struct bus {
    const char *name, *links;
    const char *socket_link, *memory_rate; /* of processors of its time */
    double wire_bytes_per_s;
} buses[] = {
    {"pcie3x8",
     "; Half of a measured x16 slot.\n"
     "[link pcie3x8]\nbytes_per_s = 6.2GB/s, assumed\nlatency_ns = 1us, assumed\n",
     "30.6GB/s, assumed", "76.8GB/s, assumed", DL_PCIE3_X8_BYTES_PER_S},
    {"pcie3x16",
     "; bandwidthTest, pinned, V100-PCIE: superbenchmark tests/data, cuda_memory_h2d_bw.log.\n"
     "[link pcie3x16]\nbytes_per_s = 12.4GB/s, measured\nlatency_ns = 1us, assumed\n",
     "30.6GB/s, assumed", "76.8GB/s, assumed", DL_PCIE3_X16_BYTES_PER_S},
    {"pcie4x16",
     "; One way and both ways, DGX A100: superbenchmark tests/data, gpu_copy_bw.log.\n"
     "[link pcie4x16]\nbytes_per_s = 26.2GB/s, measured\nduplex_bytes_per_s = 49.4GB/s, measured\n"
     "latency_ns = 1us, assumed\n",
     "76GB/s, assumed", "204.8GB/s, assumed", DL_PCIE4_X16_BYTES_PER_S},
    {"pcie5x16",
     "; nvbandwidth, H100: NVIDIA/nvbandwidth, thread 24, device_to_host_memcpy_sm.\n"
     "[link pcie5x16]\nbytes_per_s = 52.8GB/s, measured\nlatency_ns = 1us, assumed\n",
     "96GB/s, assumed", "307.2GB/s, assumed", DL_PCIE5_X16_BYTES_PER_S},
};

/* NULL: there is none of this name. */
static const struct bus *find_bus(const char *name)
{
    for (size_t b = 0; b < DL_LENGTH(buses); b++)
        if (strcmp(buses[b].name, name) == 0) return &buses[b];
    return NULL;
}

static const char *cell(const dl_csv *csv, size_t row, const char *column)
{
    return dl_csv_cell(csv, row, (size_t)dl_csv_column(csv, column));
}

/* The next character of a name that tells it from others, 0 at its end. */
static int next_letter(const char **name)
{
    while (**name == '_' || **name == '-' || **name == ' ')
        (*name)++;
    return **name != '\0' ? tolower((unsigned char)*(*name)++) : 0;
}

/* What follows brands before the name: "GeForce RTX 3090", "nvidia_a100". */
static const char *without_brands(const char *name)
{
    static const char *const brands[] = {"nvidia", "amd", "geforce", "tesla", "quadro", "instinct"};
    for (size_t b = 0; b < DL_LENGTH(brands); b++) {
        const size_t letters = strlen(brands[b]);
        if (strncasecmp(name, brands[b], letters) == 0 && name[letters] != '\0') {
            name += letters;
            name += strspn(name, "_- ");
        }
    }
    return name;
}

/* Capital letters, '_' and '-' do not count: RTX-3090 is rtx3090, v100pcie is v100_pcie. */
static bool same_name(const char *a, const char *b)
{
    int letter;
    a = without_brands(a);
    b = without_brands(b);
    do {
        letter = next_letter(&a);
        if (letter != next_letter(&b)) return false;
    } while (letter != 0);
    return true;
}

/* Whether `name` is a word of `words`. */
static bool has_word(const char *words, const char *name)
{
    char *copy = dl_strdup(words), *rest = NULL;
    bool found = false;
    for (char *word = strtok_r(copy, " ", &rest); word != NULL && !found;
         word = strtok_r(NULL, " ", &rest)) {
        found = same_name(word, name);
    }
    free(copy);
    return found;
}

/* Row of the table with this name, or -1. */
static int find_row(const dl_csv *csv, const char *name)
{
    const int also = dl_csv_column(csv, "also");
    for (size_t r = 0; r < csv->rows; r++) {
        if (same_name(cell(csv, r, "name"), name)) return (int)r;
        if (also >= 0 && has_word(dl_csv_cell(csv, r, (size_t)also), name)) return (int)r;
    }
    return -1;
}

/* A rate of the table, checked by check_tables; 0: an empty cell. */
static double rate_of(const dl_csv *csv, size_t row, const char *column)
{
    dl_quantity rate = {0};
    const char *text = cell(csv, row, column);
    if (text[0] == '\0' ||
        dl_quantity_parse(text, DL_DIMENSION_BYTES_PER_S, &rate, NULL) != DL_OK) {
        return 0;
    }
    return rate.value;
}

static dl_status refuse(const dl_csv *csv, size_t row, const char *column, dl_error *err)
{
    return dl_error_set_at(err, DL_ERR_DATA, csv->path, csv->lines[row], "%s: unexpected '%s'",
                           column, cell(csv, row, column));
}

static bool has_rate(const dl_csv *csv, size_t row, const char *column)
{
    return cell(csv, row, column)[0] == '\0' || rate_of(csv, row, column) > 0;
}

/* What a row names must be there, so that every one of them makes a machine. */
static dl_status check_tables(const tables *t, dl_error *err)
{
    for (size_t r = 0; r < t->gpus.rows; r++) {
        if (find_bus(cell(&t->gpus, r, "bus")) == NULL) return refuse(&t->gpus, r, "bus", err);
        if (!has_rate(&t->gpus, r, "fabric_rate")) return refuse(&t->gpus, r, "fabric_rate", err);
        if (!has_rate(&t->gpus, r, "bridge_rate")) return refuse(&t->gpus, r, "bridge_rate", err);
    }
    for (size_t r = 0; r < t->instances.rows; r++) {
        const dl_csv *csv = &t->instances;
        const char *bus = cell(csv, r, "bus");
        if (find_row(&t->gpus, cell(csv, r, "gpu")) < 0) return refuse(csv, r, "gpu", err);
        if (strtol(cell(csv, r, "gpus"), NULL, 10) < 1) return refuse(csv, r, "gpus", err);
        if (bus[0] != '\0' && find_bus(bus) == NULL) return refuse(csv, r, "bus", err);
        if (!has_rate(csv, r, "nic_rate")) return refuse(csv, r, "nic_rate", err);
    }
    return DL_OK;
}

static dl_status read_tables(tables *t, dl_error *err)
{
    static const char *const gpus[] = {
        "name",        "also",  "title", "memory", "capability", "memory_rate", "fp32",
        "tf32",        "fp16",  "bf16",  "fp8",    "bus",        "fabric",      "fabric_rate",
        "bridge_rate", "board", "peer",  "source", NULL};
    static const char *const instances[] = {
        "name", "title",    "gpu",         "gpus",  "bus",        "cores",  "memory",
        "nics", "nic_rate", "nic_latency", "price", "price_date", "source", NULL};
    *t = (tables){0};
    dl_status status = read_table(&t->gpus, "gpus.csv", gpus, err);
    if (status == DL_OK) status = read_table(&t->instances, "instances.csv", instances, err);
    if (status == DL_OK) status = check_tables(t, err);
    if (status != DL_OK) free_tables(t);
    return status;
}

/* --- names ----------------------------------------------------------------------------------- */

/* GPUs of one model. */
typedef struct wanted_gpus {
    long count;
    int gpu; /* row */
} wanted_gpus;

/* Equal nodes. */
typedef struct wanted_nodes {
    long nodes, gpus;            /* of a node */
    wanted_gpus parts[GPUS_MAX]; /* [part_count] of a node, one of an instance */
    int part_count;
    long ports;                /* of a box to the network; 0: none */
    double network_gbit_per_s; /* of each */
    bool infiniband;
    bool bridges; /* NVLink between each two of a part's GPUs */
} wanted_nodes;

/* What a name means. */
typedef struct wanted {
    int instance; /* row; -1: boxes, or a file */
    char *file;   /* path of a machine file, whose nodes these are; NULL: none. Freed by caller */
    wanted_nodes kinds[KINDS_MAX];
    int kind_count; /* >= 1, of an instance and a file 1 */
} wanted;

/* The count before an 'x', or 0; *rest is what comes after it, or all. */
static long count_before(const char *name, const char **rest)
{
    char *end = NULL;
    *rest = name;
    if (!isdigit((unsigned char)name[0])) return 0;
    const long count = strtol(name, &end, 10);
    if (tolower((unsigned char)*end) != 'x') return 0;
    *rest = end + 1;
    return count;
}

/* Names of the machine files without ".ini", sorted. */
static size_t list_files(char ***names)
{
    struct dirent **entries = NULL;
    char *folder = dl_share_path("scenarios/machines");
    const int found = scandir(folder, &entries, NULL, alphasort);
    size_t count = 0;
    free(folder);
    *names = dl_calloc(found > 0 ? (size_t)found : 0, sizeof **names, "names of machines");
    for (int i = 0; i < found; i++) {
        const char *name = entries[i]->d_name;
        if (dl_ends_with(name, ".ini")) {
            (*names)[count++] = dl_format("%.*s", (int)strlen(name) - 4, name);
        }
        free(entries[i]);
    }
    free(entries);
    return count;
}

/* The digits of a product's number, "3090" of rtx3090, and the letters before it, "rtx". */
typedef struct product {
    char series[16], number[16];
    const char *rest; /* what comes after the number */
} product;

static product product_of(const char *name)
{
    product p = {.rest = name};
    size_t letters = 0, digits = 0;
    for (int c; (c = next_letter(&name)) != 0; p.rest = name) {
        if (!isdigit(c) && digits > 0) break;
        if (isdigit(c) && digits + 1 < sizeof p.number) p.number[digits++] = (char)c;
        if (!isdigit(c) && letters + 1 < sizeof p.series) p.series[letters++] = (char)c;
    }
    return p;
}

/* Of a number of three digits or more the last one may be missing: 309 is 3090. */
static bool same_number(const char *typed, const char *known)
{
    const size_t digits = strlen(typed);
    if (strcmp(typed, known) == 0) return true;
    return digits >= 3 && strlen(known) == digits + 1 && strncmp(typed, known, digits) == 0;
}

/* A number alone tells generations apart where a letter before it does not (gtx3090), and "v" from
 * "a" does. */
static bool same_series(const char *typed, const char *known)
{
    if (typed[0] == '\0' || strcmp(typed, known) == 0) return true;
    return strlen(typed) >= 3 && strlen(known) >= 3 && dl_names_nearest(typed, &known, 1) == 0;
}

/* Whether all numbers of two names are the same. */
static bool same_numbers(const char *typed, const char *known)
{
    product a, b;
    do {
        a = product_of(typed);
        b = product_of(known);
        if (!same_number(a.number, b.number)) return false;
        typed = a.rest;
        known = b.rest;
    } while (a.number[0] != '\0');
    return true;
}

/* The GPU nearest to what was typed, of the same product number, so that it is no other generation;
 * -1: none, or several series have that number. */
static int nearest_gpu(const dl_csv *gpus, const char *typed)
{
    const product like = product_of(without_brands(typed));
    const char **names = dl_calloc(gpus->rows, sizeof *names, "names of GPUs");
    size_t count = 0, shortest = 0;
    int begun = -1; /* the shortest that starts with what was typed */
    bool one_series = true;
    for (size_t r = 0; r < gpus->rows && like.number[0] != '\0'; r++) {
        const product known = product_of(cell(gpus, r, "name"));
        if (!same_number(like.number, known.number) || !same_series(like.series, known.series))
            continue;
        names[count] = cell(gpus, r, "name");
        if (strlen(names[count]) < strlen(names[shortest])) shortest = count;
        if (strncasecmp(names[count], typed, strlen(typed)) == 0 &&
            (begun < 0 || strlen(names[count]) < strlen(names[begun]))) {
            begun = (int)count;
        }
        one_series &= strcmp(product_of(names[0]).series, known.series) == 0;
        count++;
    }
    const int nearest = begun >= 0 ? begun : dl_names_nearest(typed, names, count);
    const char *found = count == 0 ? NULL : names[nearest >= 0 ? (size_t)nearest : shortest];
    free(names);
    return found != NULL && one_series ? find_row(gpus, found) : -1;
}

#define OWN_MACHINE                                                                       \
    "; dlsim --machines lists machines and GPUs; another GPU goes into a machine file's " \
    "[gpu_model] (docs/formats.md)"

/* "; did you mean ...": the machine that the name may mean, to text[bytes]. */
static void machines_hint(char *text, size_t bytes, const char *name)
{
    tables t;
    char **files = NULL;
    char *machine = dl_strndup(name, strcspn(name, "@"));
    const char *rest = NULL;
    const long boxes = count_before(machine, &rest);
    size_t count = list_files(&files), near = 0;
    int gpu = -1;
    snprintf(text, bytes, OWN_MACHINE);
    if (read_tables(&t, NULL) == DL_OK) {
        files = dl_realloc(files, count + t.instances.rows, sizeof *files, "names of machines");
        for (size_t r = 0; r < t.instances.rows; r++)
            files[count++] = dl_strdup(cell(&t.instances, r, "name"));
        gpu = nearest_gpu(&t.gpus, rest);
        if (gpu >= 0) {
            snprintf(text, bytes, "; did you mean '%ldx%s'?", boxes > 0 ? boxes : 1,
                     cell(&t.gpus, (size_t)gpu, "name"));
        }
        free_tables(&t);
    }
    const char **names = dl_calloc(count, sizeof *names, "names of machines");
    for (size_t i = 0; i < count; i++)
        if (same_numbers(rest, files[i])) names[near++] = files[i];
    const int nearest = gpu < 0 ? dl_names_nearest(rest, names, near) : -1;
    if (nearest >= 0) {
        snprintf(text, bytes, "; did you mean '%.*s%s'?", (int)(rest - machine), machine,
                 names[nearest]);
    }
    free(names);
    dl_ini_free_list(files, count);
    free(machine);
}

static dl_status refuse_name(const char *name, dl_error *err)
{
    char hint[1500];
    machines_hint(hint, sizeof hint, name);
    return dl_error_set(err, DL_ERR_NAME, "'%s' is neither a file nor a machine%s", name, hint);
}

/* The part `part` at `at` of a name with several: the nearest name is that with the nearest GPU
 * there. */
static dl_status refuse_part(const tables *t, const char *name, size_t at, const char *part,
                             dl_error *err)
{
    const char *gpu = NULL;
    const long count = count_before(part, &gpu);
    const int row = nearest_gpu(&t->gpus, gpu);
    if (row < 0) {
        return dl_error_set(err, DL_ERR_NAME, "'%s': '%s' is not COUNTxGPU" OWN_MACHINE, name,
                            part);
    }
    return dl_error_set(err, DL_ERR_NAME,
                        "'%s': '%s' is not COUNTxGPU; did you mean '%.*s%ldx%s%s'?", name, part,
                        (int)at, name, count > 0 ? count : 1, cell(&t->gpus, (size_t)row, "name"),
                        name + at + strlen(part));
}

/* "+nvlink": the parts that can have bridges do. */
static dl_status want_bridges(const tables *t, const char *name, wanted_nodes *w, dl_error *err)
{
    for (int p = 0; p < w->part_count; p++) {
        const wanted_gpus *part = &w->parts[p];
        w->bridges |= part->count > 1 && rate_of(&t->gpus, (size_t)part->gpu, "bridge_rate") > 0;
    }
    if (w->bridges) return DL_OK;
    const char *title = w->part_count > 0 ? cell(&t->gpus, (size_t)w->parts[0].gpu, "title") : "";
    if (w->part_count > 0 && rate_of(&t->gpus, (size_t)w->parts[0].gpu, "bridge_rate") > 0) {
        return dl_error_set(err, DL_ERR_RANGE, "'%s': an NVLink bridge joins two GPUs", name);
    }
    return dl_error_set(err, DL_ERR_NAME,
                        "'%s': NVLink bridges of %s are not known; a machine file's [nvlinks] "
                        "joins GPUs (docs/formats.md), as machines/dgx1_v100.ini does",
                        name, title);
}

/* "1xgtx1080ti+1xrtx2080ti": the parts of a box, which is at `at` in the whole name. */
static dl_status understand_box(const tables *t, const char *name, size_t at, const char *box,
                                wanted_nodes *w, dl_error *err)
{
    const size_t bytes = strlen(box);
    if (bytes == 0 || box[0] == '+' || box[bytes - 1] == '+' || strstr(box, "++") != NULL) {
        return refuse_name(name, err);
    }
    char *copy = dl_strdup(box), *rest = NULL;
    dl_status status = DL_OK;
    for (char *part = strtok_r(copy, "+", &rest); part != NULL && status == DL_OK;
         part = strtok_r(NULL, "+", &rest)) {
        const char *gpu = NULL;
        const long count = count_before(part, &gpu);
        const int row = gpu != part ? find_row(&t->gpus, gpu) : -1;
        if (same_name(part, "nvlink") && (rest == NULL || rest[0] == '\0')) {
            status = want_bridges(t, name, w, err);
        } else if (row < 0) {
            status = strchr(name, '+') != NULL
                         ? refuse_part(t, name, at + (size_t)(part - copy), part, err)
                         : refuse_name(box, err);
        } else if (count < 1 || count > GPUS_MAX - w->gpus) {
            status = dl_error_set(err, DL_ERR_RANGE, "'%s': expected 1 to %d GPUs", box, GPUS_MAX);
        } else {
            w->parts[w->part_count++] = (wanted_gpus){count, row};
            w->gpus += count;
        }
    }
    free(copy);
    return status;
}

/* "10gbe", "200ib", "8x400ib": the ports of a node, in Gb/s. */
static dl_status understand_network(const char *name, const char *network, wanted_nodes *w,
                                    dl_error *err)
{
    const char *rate = network;
    char *end = NULL;
    const long ports = count_before(network, &rate);
    w->ports = rate != network ? ports : 1;
    w->network_gbit_per_s = isdigit((unsigned char)rate[0]) ? strtod(rate, &end) : 0;
    if (end != rate + strspn(rate, "0123456789.")) end = NULL; /* hexadecimal, an exponent */
    w->infiniband = end != NULL && same_name(end, "ib");
    const bool known = w->infiniband || (end != NULL && same_name(end, "gbe"));
    if (known && w->ports >= 1 && w->ports <= PORTS_MAX && w->network_gbit_per_s >= 0.1 &&
        w->network_gbit_per_s <= 10000) {
        return DL_OK;
    }
    return dl_error_set(err, DL_ERR_NAME,
                        "'%s': expected a network after '@' in Gb/s, such as 10gbe (Ethernet over "
                        "TCP), 200ib (InfiniBand), or 8x400ib (a node has 8 ports; at most %d)",
                        name, PORTS_MAX);
}

/* "2xrtx3090", "2xrtx3090@1gbe", "4x2xrtx3090@1gbe": boxes of one kind, of which a network makes
 * nodes; `text` is at `at` in the whole name. */
static dl_status understand_boxes(const tables *t, const char *name, size_t at, const char *text,
                                  wanted_nodes *w, dl_error *err)
{
    const char *network = strchr(text, '@'), *box = NULL, *gpus = NULL;
    char *boxes = dl_strndup(text, network != NULL ? (size_t)(network - text) : strlen(text));
    const long count = count_before(boxes, &box);
    if (count_before(box, &gpus) == 0) box = boxes; /* a single count, of GPUs */
    const bool several = box != boxes;
    *w = (wanted_nodes){.nodes = several ? count : 1};
    dl_status status = understand_box(t, name, at + (size_t)(box - boxes), box, w, err);
    if (status == DL_OK && network != NULL) {
        status = understand_network(name, network + 1, w, err);
    }
    if (status == DL_OK && several && (count < 1 || count > NODES_MAX)) {
        status = dl_error_set(err, DL_ERR_RANGE, "'%s': expected 1 to %d nodes", name, NODES_MAX);
    } else if (status == DL_OK && network == NULL && (several || strchr(name, '@') != NULL)) {
        status =
            dl_error_set(err, DL_ERR_NAME, "'%s': nodes need a network, as %s@10gbe", name, name);
    }
    free(boxes);
    return status;
}

/* "2x4xa100@200ib+1x8xv100@100ib": kinds of nodes, each up to its network. */
static dl_status understand_kinds(const tables *t, const char *name, wanted *w, dl_error *err)
{
    dl_status status = DL_OK;
    long nodes = 0;
    for (const char *at = name, *end; at != NULL && status == DL_OK; at = end) {
        const char *network = strchr(at, '@');
        end = network != NULL ? strchr(network, '+') : NULL;
        if (w->kind_count == KINDS_MAX) {
            return dl_error_set(err, DL_ERR_RANGE, "'%s': at most %d kinds of nodes", name,
                                KINDS_MAX);
        }
        char *text = dl_strndup(at, end != NULL ? (size_t)(end - at) : strlen(at));
        status =
            understand_boxes(t, name, (size_t)(at - name), text, &w->kinds[w->kind_count], err);
        if (status == DL_OK) nodes += w->kinds[w->kind_count++].nodes;
        free(text);
        if (end != NULL) end++;
    }
    if (status != DL_OK || nodes <= NODES_MAX) return status;
    return dl_error_set(err, DL_ERR_RANGE, "'%s': expected 1 to %d nodes", name, NODES_MAX);
}

/* An instance's ports are those that the provider gives it. */
static dl_status refuse_network(const tables *t, const char *name, const char *instance,
                                dl_error *err)
{
    const size_t bytes = strcspn(instance, "@");
    char *alone = dl_strndup(instance, bytes);
    const bool known = instance[bytes] == '@' && find_row(&t->instances, alone) >= 0;
    free(alone);
    if (!known) return DL_OK;
    return dl_error_set(err, DL_ERR_NAME,
                        "'%s': an instance has a network of its own, only boxes take one after "
                        "'@': %.*s",
                        name, (int)strcspn(name, "@"), name);
}

/* "2xdgx_h100", "4xdgx1_v100@100ib": nodes of a machine file, perhaps with other ports. */
static dl_status understand_file(const char *name, const char *text, long nodes, wanted *w,
                                 dl_error *err)
{
    const char *network = strchr(text, '@');
    w->kinds[w->kind_count++].nodes = nodes;
    if (nodes < 1 || nodes > NODES_MAX) {
        return dl_error_set(err, DL_ERR_RANGE, "'%s': expected 1 to %d nodes", name, NODES_MAX);
    }
    return network != NULL ? understand_network(name, network + 1, w->kinds, err) : DL_OK;
}

static dl_status understand(const tables *t, const char *name, wanted *w, dl_error *err)
{
    const char *rest = NULL;
    const long count = count_before(name, &rest), nodes = rest != name ? count : 1;
    *w = (wanted){.instance = find_row(&t->instances, rest)};
    char *alone = dl_strndup(rest, strcspn(rest, "@"));
    if (w->instance < 0) w->file = dl_machine_file(alone);
    free(alone);
    if (w->file != NULL) return understand_file(name, rest, nodes, w, err);
    if (w->instance < 0) {
        const dl_status status = refuse_network(t, name, rest, err);
        return status == DL_OK ? understand_kinds(t, name, w, err) : status;
    }
    const size_t row = (size_t)w->instance;
    wanted_nodes *kind = &w->kinds[w->kind_count++];
    kind->nodes = nodes;
    kind->gpus = strtol(cell(&t->instances, row, "gpus"), NULL, 10);
    kind->parts[kind->part_count++] =
        (wanted_gpus){kind->gpus, find_row(&t->gpus, cell(&t->instances, row, "gpu"))};
    if (kind->nodes >= 1 && kind->nodes <= NODES_MAX && kind->gpus <= GPUS_MAX) return DL_OK;
    return dl_error_set(err, DL_ERR_RANGE, "'%s': expected 1 to %d nodes", name, NODES_MAX);
}

/* --- the text -------------------------------------------------------------------------------- */

static void write_rate(FILE *out, const char *key, const char *value, const char *origin)
{
    if (value[0] != '\0') fprintf(out, "%s = %s, %s\n", key, value, origin);
}

static void write_gpu(FILE *out, const dl_csv *gpus, size_t row)
{
    fprintf(out, "\n; %s\n[gpu_model %s]\n", cell(gpus, row, "source"), cell(gpus, row, "name"));
    write_rate(out, "memory_bytes", cell(gpus, row, "memory"), "catalogue");
    write_rate(out, "memory_bytes_per_s", cell(gpus, row, "memory_rate"), "catalogue");
    write_rate(out, "fp32_flop_per_s", cell(gpus, row, "fp32"), "catalogue");
    write_rate(out, "tf32_flop_per_s", cell(gpus, row, "tf32"), "catalogue");
    write_rate(out, "fp16_flop_per_s", cell(gpus, row, "fp16"), "catalogue");
    write_rate(out, "bf16_flop_per_s", cell(gpus, row, "bf16"), "catalogue");
    write_rate(out, "fp8_flop_per_s", cell(gpus, row, "fp8"), "catalogue");
    write_rate(out, "compute_capability", cell(gpus, row, "capability"), "catalogue");
}

/* Two processors where there are more than four GPUs. */
static int sockets_of(const wanted_nodes *kind)
{
    return kind->gpus > GPUS_OF_A_SOCKET ? 2 : 1;
}

/* What joins the GPUs of a node, "": nothing, or they are unlike. */
static const char *fabric_of(const tables *t, const wanted_nodes *kind)
{
    return kind->part_count > 1 ? "" : cell(&t->gpus, (size_t)kind->parts[0].gpu, "fabric");
}

/* Whether an NVSwitch joins the GPUs of each node, so that NCCL's choice among its algorithms is
 * known; elsewhere the fastest is taken. */
static bool has_nvswitches(const tables *t, const wanted *w)
{
    for (int k = 0; k < w->kind_count; k++) {
        if (w->kinds[k].gpus < 2 || strcmp(fabric_of(t, &w->kinds[k]), "nvswitch") != 0)
            return false;
    }
    return true;
}

/* A [link] that was written. */
typedef struct written_link {
    char *name, *text;
} written_link;

/* A machine's text in the making. */
typedef struct writer {
    FILE *out;
    const tables *t;
    const wanted *w;
    const wanted_nodes *kind; /* that is written */
    char of[16];              /* " of box2": what its sections end with; "" of the first */
    written_link links[(3 + GPUS_MAX) * KINDS_MAX];
    size_t link_count;
} writer;

static void free_links(writer *to)
{
    for (size_t i = 0; i < to->link_count; i++) {
        free(to->links[i].name);
        free(to->links[i].text);
    }
}

/* Writes a link, after `note`, and returns its name; a link that an earlier kind has with the same
 * text is that one. Takes over `text`. */
static const char *write_link(writer *to, const char *name, const char *note, char *text)
{
    const long number = to->kind - to->w->kinds + 1;
    for (size_t i = 0; i < to->link_count; i++) {
        const written_link *link = &to->links[i];
        if (strncmp(link->name, name, strlen(name)) != 0 || strcmp(link->text, text) != 0) continue;
        free(text);
        return link->name;
    }
    written_link *link = &to->links[to->link_count++];
    *link =
        (written_link){number == 1 ? dl_strdup(name) : dl_format("%s_box%ld", name, number), text};
    fprintf(to->out, "%s[link %s]\n%s", note, link->name, text);
    return link->name;
}

/* What links to an NVSwitch of a data sheet's rate reach, and its sums (NVLS, from the third
 * generation on). */
typedef struct fabric_rates {
    double gb_per_s;
    const char *rates, *sums;
} fabric_rates;
static const fabric_rates reached[] = {
    {300, "bytes_per_s = 279GB/s, measured\nduplex_bytes_per_s = 531GB/s, measured\n", ""},
    {450, "bytes_per_s = 376.6GB/s, measured\n", "sum_frac = 0.819, measured\n"},
    {900,
     "bytes_per_s = 675GB/s (630GB/s to 722GB/s), assumed\n"
     "source = all-reduces of nccl-tests on p6-b200.48xlarge: rings of 4 and 5 GPUs 673 and 678 "
     "GB/s; NCCL counts on 722\n",
     "; Sums of 6 to 8 GPUs there: 540 to 545 GB/s.\nsum_frac = 0.8, assumed\n"},
    {0, NULL, ""}};

/* NVLink's rates as copies reach them. */
static void write_fabric(writer *to)
{
    const size_t gpu = (size_t)to->kind->parts[0].gpu;
    const char *fabric = fabric_of(to->t, to->kind);
    const double rate = rate_of(&to->t->gpus, gpu, "fabric_rate");
    if (fabric[0] == '\0' || to->kind->gpus < 2) return;
    const bool mesh = strcmp(fabric, "mesh") == 0;
    const fabric_rates *known = reached;
    while (known->gb_per_s != 0 && known->gb_per_s * 1e9 != rate)
        known++;
    char *rates = known->gb_per_s != 0
                      ? dl_strdup(known->rates)
                      : dl_format("bytes_per_s = %gGB/s, assumed\n", 0.84 * rate / 1e9);
    const char *link = write_link(
        to, mesh ? "xgmi" : "nvlink",
        "\n; As all-reduces have it of their generations (A100 and H100: machines/dgx_a100.ini, "
        "dgx_h100.ini);\n; of others 0.84 of the data sheet's rate.\n",
        dl_format("%slatency_ns = 0.35us, assumed\n", rates));
    free(rates);
    fprintf(to->out, mesh ? "[nvlinks mesh%s]\nlink = %s\n" : "[nvswitch%s]\nlink = %s\n", to->of,
            link);
    if (!mesh) fputs(known->sums, to->out);
    if (!mesh) return;
    fputs("pairs = ", to->out);
    for (long a = 0; a < to->kind->gpus; a++) {
        for (long b = a + 1; b < to->kind->gpus; b++)
            fprintf(to->out, "%s%ld-%ld", a + b > 1 ? ", " : "", a, b);
    }
    fputs("\n", to->out);
}

/* NVLink bridges between GPUs 0 and 1, 2 and 3 of each part that has them. */
static void write_bridges(writer *to)
{
    long first = 0;
    for (int p = 0; p < to->kind->part_count && to->kind->bridges; p++) {
        const wanted_gpus *part = &to->kind->parts[p];
        const double rate = rate_of(&to->t->gpus, (size_t)part->gpu, "bridge_rate");
        const char *name = cell(&to->t->gpus, (size_t)part->gpu, "name");
        for (long g = first; rate > 0 && g + 1 < first + part->count; g += 2) {
            if (g == first) {
                char *class = dl_format("bridge_%s", name);
                const char *link = write_link(
                    to, class, "\n",
                    dl_format("bytes_per_s = %gGB/s (%gGB/s to %gGB/s), assumed\n"
                              "latency_ns = 0.7us, assumed\nsource = " BRIDGE_SOURCE "\n",
                              BRIDGE_FRAC * rate / 1e9, BRIDGE_LOW * rate / 1e9,
                              BRIDGE_HIGH * rate / 1e9));
                free(class);
                fprintf(to->out, "[nvlinks %s%s]\nlink = %s\npairs = ", name, to->of, link);
            }
            fprintf(to->out, "%s%ld-%ld", g > first ? ", " : "", g, g + 1);
        }
        if (rate > 0 && part->count > 1) fputs("\n", to->out);
        first += part->count;
    }
}

/* Copies go from card to card only if those of all parts let them, and of an instance over NVLink
 * only. */
static const char *peer_of(const writer *to)
{
    const wanted_nodes *kind = to->kind;
    if (to->w->instance >= 0 && fabric_of(to->t, kind)[0] == '\0') return "none";
    for (int p = 0; p < kind->part_count; p++)
        if (strcmp(cell(&to->t->gpus, (size_t)kind->parts[p].gpu, "peer"), "none") == 0)
            return "none";
    return cell(&to->t->gpus, (size_t)kind->parts[0].gpu, "peer");
}

/* Collectives between GPUs in slots of the processors go through host memory, whether copies may go
 * from card to card or not: NCCL takes that only below a PCIe switch or, of two GPUs, on AMD's
 * processors (ncclTopoCheckP2p in src/graph/paths.cc at 7aa1c46f). Libraries of AMD do not. */
static void write_shm(const writer *to, const struct bus *bus)
{
    const wanted_nodes *kind = to->kind;
    if (kind->gpus < 2 || fabric_of(to->t, kind)[0] != '\0' || strcmp(peer_of(to), "all") == 0)
        return;
    dl_machine_write_overlap(to->out, to->of);
    if (kind->bridges && kind->gpus == 2) return;
    dl_machine_write_shm(to->out, bus->wire_bytes_per_s, to->w->instance >= 0, to->of);
}

/* NCCL src/graph/tuning.cc at b6475625: baseLat and hwLat of NVLINK, PCI and NET, ring. */
static void write_protocols(FILE *out, bool fabric)
{
    static const char *const rows[] = {
        "simple]\nlaunch_ns = 8.4us, catalogue\nhop_ns = 5.7us, catalogue\n"
        "network_hop_ns = 14us, catalogue\nbandwidth_frac = 1, assumed\n",
        "ll]\nlaunch_ns = 6.6us, catalogue\nhop_ns = 0.6us, catalogue\n"
        "network_hop_ns = 2.7us, catalogue\nbandwidth_frac = 0.25, assumed\n",
        "ll128]\nlaunch_ns = 14us, catalogue\nhop_ns = 1.9us, catalogue\n"
        "network_hop_ns = 4us, catalogue\nbandwidth_frac = 0.85, assumed\n",
        "simple]\nlaunch_ns = 8.4us, catalogue\nhop_ns = 3.4us, catalogue\n"
        "network_hop_ns = 14us, catalogue\nbandwidth_frac = 0.9, assumed\n",
    };
    fputs("\n; NCCL src/graph/tuning.cc at b6475625: baseLat and hwLat, ring.\n", out);
    for (int r = fabric ? 1 : 0; r < (fabric ? 4 : 1); r++)
        fprintf(out, "[protocol %s", rows[r]);
}

/* What programs get of a port of `gbit_per_s`. Nine tenths of it, or less by TCP: one socket carries 5
 * to 10 Gb/s between instances of a cloud (EC2's limit of a flow), and ports beyond 50 Gb/s take
 * several cores. Over InfiniBand and providers' own networks 0.7 of it at least. */
static char *port_rates(double gbit_per_s, bool over_tcp)
{
    const double by_tcp = fmin(0.7 * gbit_per_s, fmax(7, 0.15 * gbit_per_s));
    return dl_format("bytes_per_s = %gGb/s (%gGb/s to %gGb/s), assumed\n", 0.9 * gbit_per_s,
                     over_tcp ? by_tcp : 0.7 * gbit_per_s, 0.97 * gbit_per_s);
}

/* The link of a port, of a box or of an instance (row), to the network; NULL: it has none. */
static const char *write_port(writer *to, const char *name)
{
    const dl_csv *instances = &to->t->instances;
    const wanted_nodes *kind = to->kind;
    const bool made = to->w->instance < 0;
    const size_t row = made ? 0 : (size_t)to->w->instance;
    const double rate =
        made ? kind->network_gbit_per_s * 1e9 / 8 : rate_of(instances, row, "nic_rate");
    if (!(rate > 0)) return NULL;
    char *note = made ? dl_format("\n; %g Gb/s, of which nine tenths are assumed.\n",
                                  kind->network_gbit_per_s)
                      : dl_format("\n; %s a port by the provider, of which nine tenths are "
                                  "assumed.\n",
                                  cell(instances, row, "nic_rate"));
    char *rates = port_rates(rate * 8 / 1e9, made && !kind->infiniband);
    const char *link = write_link(
        to, name, note,
        dl_format("%slatency_ns = %s, assumed\nsource = nine tenths of the port's rate; "
                  "one socket of TCP carries 5 to 10 Gb/s between instances of a cloud\n",
                  rates,
                  !made              ? cell(instances, row, "nic_latency")
                  : kind->infiniband ? "1.3us"
                                     : "25us"));
    free(rates);
    free(note);
    return link;
}

static long port_count(const writer *to)
{
    if (to->w->instance < 0) return to->kind->ports;
    return strtol(cell(&to->t->instances, (size_t)to->w->instance, "nics"), NULL, 10);
}

/* Ports divided among the sockets. */
static void write_nics(writer *to, int sockets, const char *bus)
{
    const long nics = port_count(to);
    const char *link = nics < 1 ? NULL : write_port(to, "network");
    for (long n = 0; n < nics && link != NULL; n++) {
        fprintf(to->out, "[nics %ld%s]\nparent = socket%ld\nlink = %s\nport = %s\n", n, to->of,
                n * sockets / nics, bus, link);
    }
}

/* ", 8 x 400 Gb/s InfiniBand" */
static void write_network(FILE *out, const wanted_nodes *kind)
{
    if (!(kind->network_gbit_per_s > 0)) return;
    fputs(", ", out);
    if (kind->ports > 1) fprintf(out, "%ld x ", kind->ports);
    fprintf(out, "%g Gb/s %s", kind->network_gbit_per_s,
            kind->infiniband ? "InfiniBand" : "Ethernet");
}

/* "2x Tesla V100 + 1x Tesla T4, 10 Gb/s Ethernet"; of several kinds with the number of nodes. */
static void write_title(const writer *to)
{
    const wanted *w = to->w;
    for (int k = 0; k < w->kind_count; k++) {
        const wanted_nodes *kind = &w->kinds[k];
        if (k > 0) fputs("; ", to->out);
        if (w->kind_count > 1 && kind->nodes > 1) fprintf(to->out, "%ld of ", kind->nodes);
        for (int p = 0; p < kind->part_count; p++) {
            const size_t gpu = (size_t)kind->parts[p].gpu;
            const char *board = cell(&to->t->gpus, gpu, "board");
            fprintf(to->out, "%s%ldx %s", p > 0 ? " + " : "", kind->parts[p].count,
                    cell(&to->t->gpus, gpu, "title"));
            if (board[0] != '\0' && kind->parts[p].count > 1) {
                fprintf(to->out, " (without the NVLink of %s)", board);
            }
        }
        if (kind->bridges) fputs(", NVLink bridges", to->out);
        write_network(to->out, kind);
    }
}

/* The bus of a part's GPUs: its number. */
static size_t bus_of(const tables *t, const wanted *w, const wanted_gpus *part)
{
    const char *own = w->instance >= 0 ? cell(&t->instances, (size_t)w->instance, "bus") : "";
    const char *name = own[0] != '\0' ? own : cell(&t->gpus, (size_t)part->gpu, "bus");
    return (size_t)(find_bus(name) - buses);
}

/* The newest bus of a node. */
static const struct bus *newest_bus(const writer *to)
{
    size_t newest = 0;
    for (int p = 0; p < to->kind->part_count; p++) {
        const size_t bus = bus_of(to->t, to->w, &to->kind->parts[p]);
        if (bus > newest) newest = bus;
    }
    return &buses[newest];
}

/* GPUs part by part, each below its share of the sockets. */
static void write_gpus(const writer *to, int sockets)
{
    const wanted_nodes *kind = to->kind;
    long first = 0;
    for (int p = 0; p < kind->part_count; p++) {
        const long end = first + kind->parts[p].count;
        while (first < end) {
            long socket = 0;
            while (kind->gpus * (socket + 1) / sockets <= first)
                socket++;
            const long of_socket = kind->gpus * (socket + 1) / sockets;
            const long last = (of_socket < end ? of_socket : end) - 1;
            fprintf(to->out, "[gpus %ld-%ld%s]\nmodel = %s\nparent = socket%ld\nlink = %s\n", first,
                    last, to->of, cell(&to->t->gpus, (size_t)kind->parts[p].gpu, "name"), socket,
                    buses[bus_of(to->t, to->w, &kind->parts[p])].name);
            first = last + 1;
        }
    }
}

/* The GPU models and buses of all kinds. */
static void write_models(const writer *to)
{
    bool has_bus[DL_LENGTH(buses)] = {false};
    bool *has_gpu = dl_calloc(to->t->gpus.rows, sizeof *has_gpu, "models");
    for (int k = 0; k < to->w->kind_count; k++) {
        const wanted_nodes *kind = &to->w->kinds[k];
        for (int p = 0; p < kind->part_count; p++) {
            const size_t gpu = (size_t)kind->parts[p].gpu;
            if (!has_gpu[gpu]) write_gpu(to->out, &to->t->gpus, gpu);
            has_gpu[gpu] = has_bus[bus_of(to->t, to->w, &kind->parts[p])] = true;
        }
    }
    free(has_gpu);
    for (size_t b = 0; b < DL_LENGTH(buses); b++)
        if (has_bus[b]) fprintf(to->out, "\n%s", buses[b].links);
}

/* Which copies of the kind's nodes need no host memory. */
static void write_copies(const writer *to)
{
    const wanted_nodes *kind = to->kind;
    fprintf(to->out, "peer = %s\n", peer_of(to));
    if (port_count(to) < 4 || (to->w->instance < 0 && !kind->infiniband)) return;
    fputs("; Assumed of nodes with four ports or more, but for TCP.\ngpudirect = yes\n", to->out);
}

/* [machine], whose peer is that of the first kind. */
static void write_head(const writer *to, const char *name)
{
    const dl_csv *instances = &to->t->instances;
    const bool made = to->w->instance < 0;
    const size_t row = made ? 0 : (size_t)to->w->instance;
    const int sockets = sockets_of(to->kind);
    long nodes = 0;
    for (int k = 0; k < to->w->kind_count; k++)
        nodes += to->w->kinds[k].nodes;
    fprintf(to->out,
            "; %s, made from gpus.csv%s. Assumed: a slot for each GPU, %d processor%s, host "
            "memory.\n",
            name, made ? "" : " and instances.csv", sockets, sockets > 1 ? "s" : "");
    fprintf(to->out, "[machine]\nschema = 1\nname = %s", made ? "" : cell(instances, row, "title"));
    write_title(to);
    fprintf(to->out, "\nnodes = %ld\n", nodes);
    if (has_nvswitches(to->t, to->w)) fputs("collectives = nccl\n", to->out);
    write_copies(to);
    if (made) return;
    fprintf(to->out, "; %s; price of %s\n", cell(instances, row, "source"),
            cell(instances, row, "price_date"));
    write_rate(to->out, "price_usd_per_hour", cell(instances, row, "price"), "catalogue");
}

/* The inside of the kind's nodes. */
static void write_kind(writer *to)
{
    const dl_csv *instances = &to->t->instances;
    const bool made = to->w->instance < 0;
    const size_t row = made ? 0 : (size_t)to->w->instance;
    const int sockets = sockets_of(to->kind);
    const struct bus *bus = newest_bus(to);
    const char *socket_link = NULL;
    if (sockets > 1) {
        socket_link = write_link(
            to, "socket", "",
            dl_format("bytes_per_s = %s\nlatency_ns = 0.5us, assumed\n", bus->socket_link));
    }
    fprintf(to->out, "\n[host%s]\nsockets = %d\nmemory_bytes_per_s = %s\n", to->of, sockets,
            bus->memory_rate);
    if (sockets > 1) fprintf(to->out, "socket_link = %s\n", socket_link);
    if (!made && cell(instances, row, "cores")[0] != '\0') {
        fprintf(to->out, "cores = %s\n", cell(instances, row, "cores"));
    }
    if (!made) write_rate(to->out, "memory_bytes", cell(instances, row, "memory"), "catalogue");
    write_gpus(to, sockets);
    write_fabric(to);
    write_bridges(to);
    write_shm(to, bus);
    write_nics(to, sockets, bus->name);
}

static void write_machine(FILE *out, const tables *t, const wanted *w, const char *name)
{
    writer to = {.out = out, .t = t, .w = w, .kind = w->kinds};
    bool fabric = false;
    long first = 0;
    write_head(&to, name);
    write_models(&to);
    for (int k = 0; k < w->kind_count; k++) {
        to.kind = &w->kinds[k];
        fabric |= fabric_of(t, to.kind)[0] != '\0' && to.kind->gpus > 1;
        fabric |= to.kind->bridges && to.kind->gpus == 2;
        if (k > 0) {
            snprintf(to.of, sizeof to.of, " of box%d", k + 1);
            fprintf(out, "\n[nodes %ld-%ld]\nkind = box%d\n[machine%s]\n", first,
                    first + to.kind->nodes - 1, k + 1, to.of);
            write_copies(&to);
        }
        write_kind(&to);
        first += to.kind->nodes;
    }
    if (!has_nvswitches(t, w)) write_protocols(out, fabric);
    free_links(&to);
}

/* The text without sections whose names start with `section`. */
static char *without_sections(const char *text, const char *section)
{
    char *kept = NULL;
    size_t bytes = 0;
    bool skips = false;
    FILE *out = dl_text_stream(&kept, &bytes);
    for (const char *line = text, *next; *line != '\0'; line = next) {
        next = line + strcspn(line, "\n");
        if (*next == '\n') next++;
        const char *start = line + strspn(line, " \t");
        if (start[0] == '[') skips = strncmp(start + 1, section, strlen(section)) == 0;
        if (!skips) fwrite(line, 1, (size_t)(next - line), out);
    }
    fclose(out);
    return kept;
}

static const char *place_name(const dl_node_kind *n, int place, char text[64])
{
    if (place < n->sockets) {
        snprintf(text, 64, "socket%d", place);
    } else {
        snprintf(text, 64, "%s", n->switches[place - n->sockets].name);
    }
    return text;
}

/* Other ports of a file's nodes: each where one of the file's is, else with the first GPU's link on
 * a socket. */
static void write_file_ports(writer *to, const dl_machine *m)
{
    char place[64];
    const dl_node_kind *n = dl_machine_node(m, 0);
    const char *port = write_port(to, "port_by_name");
    for (long i = 0; i < to->kind->ports; i++) {
        const dl_nic *like = n->nic_count > 0 ? &n->nics[i * n->nic_count / to->kind->ports] : NULL;
        const int parent = like != NULL ? like->parent : (int)(i * n->sockets / to->kind->ports);
        fprintf(to->out, "[nics %ld]\nparent = %s\nlink = %s\nport = %s\n", i,
                place_name(n, parent, place),
                m->classes[like != NULL ? like->link : n->gpus[0].link].name, port);
    }
}

static dl_status write_file_nodes(const tables *t, const wanted *w, const char *name,
                                  const dl_machine *m, char **text, dl_error *err)
{
    const wanted_nodes *kind = w->kinds;
    char number[24];
    if (m->kind_count > 1) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "'%s': %s has nodes of several kinds; their number and ports are in "
                            "its [nodes] and [nics] sections",
                            name, w->file);
    }
    snprintf(number, sizeof number, "%ld", kind->nodes);
    dl_ini_text_set(text, "machine", "nodes", number);
    if (kind->ports == 0) return DL_OK;
    char *title = NULL, *added = NULL, *kept = without_sections(*text, "nics ");
    size_t bytes = 0;
    FILE *out = dl_text_stream(&title, &bytes);
    fprintf(out, "%s", m->name);
    write_network(out, kind);
    fclose(out);
    free(*text);
    *text = kind->infiniband ? without_sections(kept, "tcp]") : dl_strdup(kept);
    free(kept);
    dl_ini_text_set(text, "machine", "name", title);
    free(title);
    out = dl_text_stream(&added, &bytes);
    writer to = {.out = out, .t = t, .w = w, .kind = kind};
    write_file_ports(&to, m);
    fclose(out);
    free_links(&to);
    char *whole = dl_format("%s\n%s", *text, added);
    free(added);
    free(*text);
    *text = whole;
    return DL_OK;
}

/* The file's text with the nodes and ports of the name. */
static dl_status make_of_file(const tables *t, const wanted *w, const char *name, char **text,
                              dl_error *err)
{
    dl_machine machine = {0};
    size_t bytes = 0;
    dl_status status = dl_machine_read(&machine, w->file, err);
    if (status != DL_OK) return status;
    status = dl_file_read(w->file, text, &bytes, err);
    if (status == DL_OK) status = write_file_nodes(t, w, name, &machine, text, err);
    if (status != DL_OK) {
        free(*text);
        *text = NULL;
    }
    dl_machine_free(&machine);
    return status;
}

dl_status dl_machine_make_text(const char *name, char **text, dl_error *err)
{
    tables t;
    wanted w;
    *text = NULL;
    dl_status status = read_tables(&t, err);
    if (status != DL_OK) return status;
    status = understand(&t, name, &w, err);
    if (status == DL_OK && w.file != NULL) {
        status = make_of_file(&t, &w, name, text, err);
    } else if (status == DL_OK) {
        size_t bytes = 0;
        FILE *out = dl_text_stream(text, &bytes);
        write_machine(out, &t, &w, name);
        fclose(out);
    }
    free(w.file);
    free_tables(&t);
    return status;
}

char *dl_machine_usual(const char *gpu, int count)
{
    tables t;
    char *name = NULL;
    if (read_tables(&t, NULL) == DL_OK) {
        const int row = find_row(&t.gpus, gpu);
        const char *board = row >= 0 ? cell(&t.gpus, (size_t)row, "board") : "";
        if (board[0] != '\0') name = dl_strdup(board);
        free_tables(&t);
    }
    return name != NULL ? name : dl_format("%dx%s", count, gpu);
}

char *dl_machine_file(const char *name)
{
    char *folder = dl_share_path("scenarios/machines"), *file = NULL;
    char **names = NULL;
    const size_t count = list_files(&names);
    for (size_t i = 0; i < count && file == NULL; i++)
        if (same_name(names[i], name)) file = dl_format("%s/%s.ini", folder, names[i]);
    dl_ini_free_list(names, count);
    free(folder);
    return file;
}

char *dl_machine_own_name(const char *path)
{
    const char *base = dl_base_name(path);
    char *name = dl_strndup(base, strlen(base) - (dl_ends_with(base, ".ini") ? 4 : 0));
    char *file = dl_machine_file(name), *real = realpath(path, NULL);
    char *real_file = file != NULL ? realpath(file, NULL) : NULL;
    const bool own = real != NULL && real_file != NULL && strcmp(real, real_file) == 0;
    free(real_file);
    free(real);
    free(file);
    if (own) return name;
    free(name);
    return NULL;
}

bool dl_machine_is_known(const char *path)
{
    tables t;
    wanted w;
    const char *name = dl_base_name(path);
    if (access(path, F_OK) == 0 || dl_ends_with(name, ".ini")) return false;
    char *file = dl_machine_file(name);
    free(file);
    if (file != NULL) return true;
    if (read_tables(&t, NULL) != DL_OK) return false;
    const dl_status status = understand(&t, name, &w, NULL);
    free(w.file);
    free_tables(&t);
    return status == DL_OK;
}

dl_status dl_machine_open(dl_machine *machine, const char *path, dl_error *err)
{
    const char *name = dl_base_name(path);
    if (access(path, F_OK) == 0 || dl_ends_with(name, ".ini")) {
        return dl_machine_read(machine, path, err);
    }
    char *text = dl_machine_file(name);
    dl_status status;
    if (text != NULL) {
        status = dl_machine_read(machine, text, err);
    } else {
        status = dl_machine_make_text(name, &text, err);
        if (status == DL_OK) status = dl_machine_read_text(machine, name, text, strlen(text), err);
    }
    free(text);
    return status;
}

/* --- the list -------------------------------------------------------------------------------- */

/* "gtx1080ti+rtx2080ti", of its own. */
static char *models_text(const dl_machine *m)
{
    char *text = dl_strdup("");
    for (int i = 0; i < m->model_count; i++) {
        if (!dl_machine_has_model(m, i)) continue;
        char *grown = dl_format("%s%s%s", text, text[0] != '\0' ? "+" : "", m->models[i].name);
        free(text);
        text = grown;
    }
    return text;
}

static void print_machine(FILE *out, const char *name, const dl_machine *m, const char *date)
{
    char price[48] = "-";
    const dl_node_kind *n = dl_machine_node(m, 0);
    const int link = n->nvlink_count > 0 ? n->nvlinks[0].link : n->gpus[0].link;
    const char *links = n->nvswitch_link >= 0 ? "NVSwitch" : m->classes[link].name;
    const dl_quantity *each = &n->gpu_price_usd_per_hour;
    if (n->price_usd_per_hour.known || each->known) {
        snprintf(price, sizeof price, "%.2f%s%s%s",
                 each->known ? each->value : n->price_usd_per_hour.value,
                 each->known ? " a GPU" : "", date[0] != '\0' ? " in " : "", date);
    }
    char *gpus = models_text(m);
    fprintf(out, "%-24s %5d %5d %-15s %-9s %-17s %s\n", name, m->nodes, n->gpu_count, gpus,
            links != NULL ? links : "-", price, m->name);
    free(gpus);
}

static dl_status print_one(FILE *out, const char *folder, const char *name, const char *date,
                           dl_error *err)
{
    dl_machine machine = {0};
    char *path = folder != NULL ? dl_format("%s/%s.ini", folder, name) : dl_strdup(name);
    dl_status status = dl_machine_open(&machine, path, err);
    if (status == DL_OK) {
        print_machine(out, name, &machine, date);
        dl_machine_free(&machine);
    }
    free(path);
    return status;
}

static void print_gpus(FILE *out, const dl_csv *gpus)
{
    static const char *const columns[] = {"memory", "memory_rate", "fp32", "tf32",   "fp16",
                                          "bf16",   "fp8",         "bus",  "fabric", "title"};
    fprintf(out,
            "\nCOUNTxGPU, as 4xrtx3090, is a box of 1 to %d of these GPUs, "
            "COUNTxGPU+COUNTxGPU one with unlike ones\n(rates without sparsity):\n%-15s %-9s %-10s "
            "%-12s %-12s %-12s %-12s %-12s %-9s %s\n",
            GPUS_MAX, "GPU", "memory", "its rate", "fp32", "tf32", "fp16", "bf16", "fp8", "bus",
            "links");
    for (size_t r = 0; r < gpus->rows; r++) {
        static const int widths[] = {9, 10, 12, 12, 12, 12, 12, 9, 9, 0};
        fprintf(out, "%-15s", cell(gpus, r, "name"));
        for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
            const char *text = cell(gpus, r, columns[c]);
            fprintf(out, " %-*s", widths[c], text[0] != '\0' ? text : "-");
        }
        fputs("\n", out);
    }
}

dl_status dl_machines_print(FILE *out, dl_error *err)
{
    tables t;
    char **names = NULL;
    dl_status status = read_tables(&t, err);
    if (status != DL_OK) return status;
    char *folder = dl_share_path("scenarios/machines");
    const size_t count = list_files(&names);
    fprintf(out, "%-24s %5s %5s %-15s %-9s %-17s %s\n", "name", "nodes", "GPUs", "GPU", "links",
            "USD/h of a node", "machine (GPUs: of a node)");
    for (size_t i = 0; i < count; i++) {
        if (status == DL_OK) status = print_one(out, folder, names[i], "", err);
        free(names[i]);
    }
    for (size_t r = 0; r < t.instances.rows && status == DL_OK; r++) {
        status = print_one(out, NULL, cell(&t.instances, r, "name"),
                           cell(&t.instances, r, "price_date"), err);
    }
    if (status == DL_OK) {
        fputs("COUNTxINSTANCE, as 4xg5.12xlarge, is that many such nodes.\n", out);
        print_gpus(out, &t.gpus);
        fputs(
            "BOX@NETWORK, such as 2xrtx3090@1gbe, is a box with one network port, repeated for as "
            "many\nworkers as asked (4x2xrtx3090@1gbe: four nodes); NUMBERgbe is Ethernet over "
            "TCP, NUMBERib\nInfiniBand, in Gb/s; 8xh100@8x400ib has 8 ports. Unlike "
            "boxes:\n1xrtx3090@1gbe+1xgtx1080ti@10gbe, of which the last is repeated. "
            "2xrtx3090+nvlink has a bridge\nbetween each two GPUs. 2xdgx_h100, 4xdgx1_v100@100ib: "
            "nodes of a machine file, the latter with\nanother port.\n",
            out);
    }
    free(names);
    free(folder);
    free_tables(&t);
    return status;
}
