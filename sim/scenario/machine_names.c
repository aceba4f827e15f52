/* The tables and files of machines, and the parser of machine names. */
#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/ini.h"
#include "common/install.h"
#include "common/machine_shm.h"
#include "common/manual.h"
#include "common/names.h"
#include "sim/scenario/machine_catalogue_internal.h"

#define NODES_MAX 10000000
#define PORTS_MAX 16 /* maximum number of ports per node */

/* Returns the name without those of `words`, NULL-terminated, that it starts with. */
static const char *without(const char *const *words, const char *name)
{
    for (; *words != NULL; words++) {
        const size_t letters = strlen(*words);
        if (strncasecmp(name, *words, letters) == 0 && name[letters] != '\0') {
            name += letters;
            name += strspn(name, "_- ");
        }
    }
    return name;
}

/* Returns the name without leading brands: "GeForce RTX 3090", "nvidia_a100", and Azure's
 * "Standard_ND96asr_v4". */
static const char *without_brands(const char *name)
{
    static const char *const brands[] = {"nvidia", "amd",      "geforce",  "tesla",
                                         "quadro", "instinct", "standard", NULL};
    return without(brands, name);
}

/* Compares names without brands: RTX-3090 equals rtx3090, v100pcie equals v100_pcie. The typed name
 * may lack the series of a GeForce: 3090. */
static bool same_name(const char *known, const char *typed)
{
    static const char *const series[] = {"gtx", "rtx", NULL};
    known = without_brands(known);
    typed = without_brands(typed);
    return dl_names_alike(known, typed) ||
           (isdigit((unsigned char)typed[0]) && dl_names_alike(without(series, known), typed));
}

/* --- the tables ------------------------------------------------------------------------------ */

void dl_machine_tables_free(dl_machine_tables *t)
{
    dl_csv_free(&t->gpus);
    dl_csv_free(&t->instances);
}

static dl_status read_table(dl_csv *csv, const char *file, const char *const *columns,
                            dl_error *err)
{
    DL_AUTOFREE char *folder = dl_share_path("scenarios/machines"),
                     *path = dl_format("%s/%s", folder, file);
    dl_status status = dl_csv_read(csv, path, err);
    for (size_t c = 0; columns[c] != NULL && status == DL_OK; c++) {
        if (dl_csv_column(csv, columns[c]) >= 0) continue;
        status = dl_error_set_at(err, DL_ERR_DATA, path, 0, "no column %s", columns[c]);
    }
    return status;
}

/* Links of a bus: copy rates from other machine files, with their sources. */
const dl_machine_bus dl_machine_buses[DL_MACHINE_BUSES] = {
    {"pcie3x8",
     "; Half of a measured x16 slot.\n"
     "[link pcie3x8]\nbytes_per_s = 6.2GB/s, assumed\nlatency_ns = 1us, assumed\n",
     "30.6GB/s, assumed", "76.8GB/s, assumed", DL_PCIE3_X8_BYTES_PER_S},
    {"pcie3x16",
     "; bandwidthTest, pinned, V100-PCIE: superbenchmark tests/data, cuda_memory_h2d_bw.log.\n"
     "[link pcie3x16]\nbytes_per_s = 12.4GB/s, measured\nlatency_ns = 1us, assumed\n",
     "30.6GB/s, assumed", "76.8GB/s, assumed", DL_PCIE3_X16_BYTES_PER_S},
    {"pcie4x8",
     "; Half of a measured x16 slot.\n"
     "[link pcie4x8]\nbytes_per_s = 13.1GB/s, assumed\nlatency_ns = 1us, assumed\n",
     "76GB/s, assumed", "204.8GB/s, assumed", DL_PCIE4_X8_BYTES_PER_S},
    {"pcie4x16",
     "; One way and both ways, DGX A100: superbenchmark tests/data, gpu_copy_bw.log.\n"
     "[link pcie4x16]\nbytes_per_s = 26.2GB/s, measured\nduplex_bytes_per_s = 49.4GB/s, measured\n"
     "latency_ns = 1us, assumed\n",
     "76GB/s, assumed", "204.8GB/s, assumed", DL_PCIE4_X16_BYTES_PER_S},
    {"pcie5x8",
     "; Half of a measured x16 slot.\n"
     "[link pcie5x8]\nbytes_per_s = 26.4GB/s, assumed\nlatency_ns = 1us, assumed\n",
     "96GB/s, assumed", "307.2GB/s, assumed", DL_PCIE5_X8_BYTES_PER_S},
    {"pcie5x16",
     "; nvbandwidth, H100: NVIDIA/nvbandwidth, thread 24, device_to_host_memcpy_sm.\n"
     "[link pcie5x16]\nbytes_per_s = 52.8GB/s, measured\nlatency_ns = 1us, assumed\n",
     "96GB/s, assumed", "307.2GB/s, assumed", DL_PCIE5_X16_BYTES_PER_S},
    {"pcie6x16",
     "; Of 128 GB/s (16 lanes of 64 GT/s) the part that pcie5x16 reaches of 63, 52.8: no copies\n"
     "; were published. It joins a B300 to its ConnectX-8 (NVIDIA, Hot Chips 2025). Copies to the\n"
     "; processor of an HGX B300 take it too: over its PCIe 5.0 they are slower.\n"
     "[link pcie6x16]\nbytes_per_s = 107.3GB/s, assumed\nlatency_ns = 1us, assumed\n",
     "96GB/s, assumed", "307.2GB/s, assumed", DL_PCIE6_X16_BYTES_PER_S},
};

const dl_machine_c2c dl_machine_c2c_links[2] = {
    {"c2c_alone",
     "; 900 GB/s in both directions together (GH200 data sheet); copies reach 346 of 450\n"
     "; (NVIDIA/nvbandwidth 23).\n"
     "[link c2c_alone]\nbytes_per_s = 346GB/s, measured\nlatency_ns = 1us, assumed\n"},
    {"c2c",
     "; 900 GB/s of a Grace in both directions together (NVIDIA, GB200 NVL72), shared by two\n"
     "; GPUs; copies of a GH200 reach 346 of 450 (NVIDIA/nvbandwidth 23).\n"
     "[link c2c]\nbytes_per_s = 225GB/s (170GB/s to 450GB/s), assumed\nlatency_ns = 1us, "
     "assumed\n"},
};

const dl_machine_bus *dl_machine_find_bus(const char *name)
{
    if (strncmp(name, DL_MACHINE_C2C, strlen(DL_MACHINE_C2C)) == 0) name += strlen(DL_MACHINE_C2C);
    for (size_t b = 0; b < DL_MACHINE_BUSES; b++)
        if (strcmp(dl_machine_buses[b].name, name) == 0) return &dl_machine_buses[b];
    return NULL;
}

const char *dl_machine_cell(const dl_csv *csv, size_t row, const char *column)
{
    return dl_csv_cell(csv, row, (size_t)dl_csv_column(csv, column));
}

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

int dl_machine_row(const dl_csv *csv, const char *name)
{
    const int also = dl_csv_column(csv, "also");
    for (size_t r = 0; r < csv->rows; r++) {
        if (same_name(dl_machine_cell(csv, r, "name"), name)) return (int)r;
        if (same_name(dl_machine_cell(csv, r, "title"), name)) return (int)r;
        if (also >= 0 && has_word(dl_csv_cell(csv, r, (size_t)also), name)) return (int)r;
    }
    return -1;
}

double dl_machine_rate(const dl_csv *csv, size_t row, const char *column)
{
    dl_quantity rate = {0};
    const char *text = dl_machine_cell(csv, row, column);
    if (text[0] == '\0' ||
        dl_quantity_parse(text, DL_DIMENSION_BYTES_PER_S, &rate, NULL) != DL_OK) {
        return 0;
    }
    return rate.value;
}

static dl_status refuse(const dl_csv *csv, size_t row, const char *column, dl_error *err)
{
    return dl_error_set_at(err, DL_ERR_DATA, csv->path, csv->lines[row], "%s: unexpected '%s'",
                           column, dl_machine_cell(csv, row, column));
}

static bool has_rate(const dl_csv *csv, size_t row, const char *column)
{
    return dl_machine_cell(csv, row, column)[0] == '\0' || dl_machine_rate(csv, row, column) > 0;
}

/* Checks the names, rates and counts in all rows, so that every row gives a valid machine. */
static dl_status check_tables(const dl_machine_tables *t, dl_error *err)
{
    for (size_t r = 0; r < t->gpus.rows; r++) {
        if (dl_machine_find_bus(dl_machine_cell(&t->gpus, r, "bus")) == NULL)
            return refuse(&t->gpus, r, "bus", err);
        if (!has_rate(&t->gpus, r, "fabric_rate")) return refuse(&t->gpus, r, "fabric_rate", err);
        if (!has_rate(&t->gpus, r, "bridge_rate")) return refuse(&t->gpus, r, "bridge_rate", err);
    }
    for (size_t r = 0; r < t->instances.rows; r++) {
        const dl_csv *csv = &t->instances;
        const char *bus = dl_machine_cell(csv, r, "bus");
        if (dl_machine_row(&t->gpus, dl_machine_cell(csv, r, "gpu")) < 0)
            return refuse(csv, r, "gpu", err);
        if (strtol(dl_machine_cell(csv, r, "gpus"), NULL, 10) < 1)
            return refuse(csv, r, "gpus", err);
        if (bus[0] != '\0' && dl_machine_find_bus(bus) == NULL) return refuse(csv, r, "bus", err);
        if (!has_rate(csv, r, "nic_rate")) return refuse(csv, r, "nic_rate", err);
    }
    return DL_OK;
}

dl_status dl_machine_tables_read(dl_machine_tables *t, dl_error *err)
{
    static const char *const gpus[] = {
        "name",   "also",        "title",       "memory", "capability", "clock",  "memory_rate",
        "fp32",   "tf32",        "fp16",        "bf16",   "fp8",        "nvfp4",  "bus",
        "fabric", "fabric_rate", "bridge_rate", "board",  "peer",       "source", NULL};
    static const char *const instances[] = {
        "name", "also",     "title",       "gpu",   "gpus",       "bus",    "cores", "memory",
        "nics", "nic_rate", "nic_latency", "price", "price_date", "source", NULL};
    *t = (dl_machine_tables){0};
    dl_status status = read_table(&t->gpus, "gpus.csv", gpus, err);
    if (status == DL_OK) status = read_table(&t->instances, "instances.csv", instances, err);
    if (status == DL_OK) status = check_tables(t, err);
    if (status != DL_OK) dl_machine_tables_free(t);
    return status;
}

size_t dl_machine_files(char ***names)
{
    DL_AUTOFREE struct dirent **entries = NULL;
    DL_AUTOFREE char *folder = dl_share_path("scenarios/machines");
    const int found = scandir(folder, &entries, NULL, alphasort);
    size_t count = 0;
    *names = dl_calloc(found > 0 ? (size_t)found : 0, sizeof **names, "names of machines");
    for (int i = 0; i < found; i++) {
        const char *name = entries[i]->d_name;
        if (dl_ends_with(name, ".ini")) {
            (*names)[count++] = dl_format("%.*s", (int)strlen(name) - 4, name);
        }
        free(entries[i]);
    }
    return count;
}

char *dl_machine_file(const char *name)
{
    char *folder = dl_share_path("scenarios/machines"), *file = NULL;
    char **names = NULL;
    const size_t count = dl_machine_files(&names);
    for (size_t i = 0; i < count && file == NULL; i++)
        if (same_name(names[i], name)) file = dl_format("%s/%s.ini", folder, names[i]);
    dl_ini_free_list(names, count);
    free(folder);
    return file;
}

/* --- parsing of names ------------------------------------------------------------------------- */

/* Returns the count before an 'x', or 0; *rest is the text after the 'x', or the whole name. Reads
 * "8xh100", "8 x H100", and Lambda's "gpu_8x_h100". */
static long count_before(const char *name, const char **rest)
{
    static const char *const prefix[] = {"gpu", NULL};
    char *end = NULL;
    const char *number = without(prefix, name);
    *rest = name;
    if (!isdigit((unsigned char)number[0])) return 0;
    const long count = strtol(number, &end, 10);
    end += strspn(end, " ");
    if (tolower((unsigned char)*end) != 'x') return 0;
    *rest = end + 1 + strspn(end + 1, " _");
    return count;
}

/* Returns the count of a name as other programs write it, "h100x8", "h100:8" or "8h100", or 0;
 * *gpu is the rest of it, freed by the caller. */
static long count_elsewhere(const char *name, char **gpu)
{
    char *end = NULL;
    const size_t bytes = strcspn(name, ":*");
    const char *last = strrchr(name, 'x'), *after = name + bytes;
    if (*after == '\0' && last != NULL && last > name) after = last;
    const long count = strtol(*after != '\0' ? after + 1 : name, &end, 10);
    if (*after != '\0' && *end != '\0') return 0;
    *gpu = *after != '\0' ? dl_strndup(name, (size_t)(after - name)) : dl_strdup(end);
    return count > 0 && count <= DL_BOX_GPUS_MAX ? count : 0;
}

/* Parts of a product name: the digits, "3090" in rtx3090, and the letters before them, "rtx". */
typedef struct product {
    char series[16], number[16];
    const char *rest; /* text after the number */
} product;

static product product_of(const char *name)
{
    product p = {.rest = name};
    size_t letters = 0, digits = 0;
    for (int c; (c = dl_name_letter(&name)) != 0; p.rest = name) {
        if (!isdigit(c) && digits > 0) break;
        if (isdigit(c) && digits + 1 < sizeof p.number) p.number[digits++] = (char)c;
        if (!isdigit(c) && letters + 1 < sizeof p.series) p.series[letters++] = (char)c;
    }
    return p;
}

/* Whether two product numbers match. The last digit of the typed number may be missing if three or
 * more remain: 309 matches 3090. */
static bool same_number(const char *typed, const char *known)
{
    const size_t digits = strlen(typed);
    if (strcmp(typed, known) == 0) return true;
    return digits >= 3 && strlen(known) == digits + 1 && strncmp(typed, known, digits) == 0;
}

/* Whether letters before a product number may mean the same series: three or more letters with a
 * typing error (gtx3090) match; "v" and "a" are different series. */
static bool same_series(const char *typed, const char *known)
{
    if (typed[0] == '\0' || strcmp(typed, known) == 0) return true;
    return strlen(typed) >= 3 && strlen(known) >= 3 && dl_names_nearest(typed, &known, 1) == 0;
}

/* Whether all numbers in two names match. */
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

/* Returns the row of the GPU that `typed` most likely means, among those with its product number;
 * -1 if there is none or if GPUs of several series have that number. */
static int nearest_gpu(const dl_csv *gpus, const char *typed)
{
    const product like = product_of(without_brands(typed));
    DL_AUTOFREE const char **names = dl_calloc(gpus->rows, sizeof *names, "names of GPUs");
    size_t count = 0, shortest = 0;
    int begun = -1; /* the shortest name that starts with `typed`; -1: none */
    bool one_series = true;
    const int same = dl_machine_row(gpus, typed);
    if (same >= 0) return same;
    for (size_t r = 0; r < gpus->rows && like.number[0] != '\0'; r++) {
        const product known = product_of(dl_machine_cell(gpus, r, "name"));
        if (!same_number(like.number, known.number) || !same_series(like.series, known.series))
            continue;
        names[count] = dl_machine_cell(gpus, r, "name");
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
    return found != NULL && one_series ? dl_machine_row(gpus, found) : -1;
}

/* Whether a name lacks only the size: p4d of p4d.24xlarge. */
static bool is_family(const char *typed, const char *known)
{
    const size_t letters = strlen(typed);
    return strncasecmp(typed, known, letters) == 0 && strchr(".-_", known[letters]) != NULL;
}

#define OWN_MACHINE                                                                       \
    "; dlsim --machines lists machines and GPUs; another GPU goes into a machine file's " \
    "[gpu_model] (docs/formats.md)"

/* Writes "; did you mean ...", with the nearest machine, to text[bytes]; if none is near, refers to
 * machine files. */
static void machines_hint(char *text, size_t bytes, const char *name)
{
    dl_machine_tables t;
    char **files = NULL;
    DL_AUTOFREE char *machine = dl_strndup(name, strcspn(name, "@"));
    DL_AUTOFREE char *alone = NULL;
    const char *rest = NULL;
    const long first = count_before(machine, &rest);
    const long boxes = first > 0 ? first : count_elsewhere(machine, &alone);
    size_t count = dl_machine_files(&files), near = 0;
    int gpu = -1;
    snprintf(text, bytes, OWN_MACHINE);
    if (dl_machine_tables_read(&t, NULL) == DL_OK) {
        files = dl_realloc(files, count + t.instances.rows, sizeof *files, "names of machines");
        for (size_t r = 0; r < t.instances.rows; r++)
            files[count++] = dl_strdup(dl_machine_cell(&t.instances, r, "name"));
        gpu = nearest_gpu(&t.gpus, first == 0 && boxes > 0 ? alone : rest);
        if (gpu >= 0) {
            snprintf(text, bytes, "; did you mean '%ldx%s'?", boxes > 0 ? boxes : 1,
                     dl_machine_cell(&t.gpus, (size_t)gpu, "name"));
        }
        dl_machine_tables_free(&t);
    }
    DL_AUTOFREE const char **names = dl_calloc(count, sizeof *names, "names of machines");
    for (size_t i = 0; i < count; i++)
        if (same_numbers(rest, files[i]) || is_family(rest, files[i])) names[near++] = files[i];
    const int nearest = gpu < 0 ? dl_names_nearest(rest, names, near) : -1;
    if (nearest >= 0) {
        snprintf(text, bytes, "; did you mean '%.*s%s'?", (int)(rest - machine), machine,
                 names[nearest]);
    }
    dl_ini_free_list(files, count);
}

static dl_status refuse_name(const char *name, dl_error *err)
{
    char hint[1500];
    machines_hint(hint, sizeof hint, name);
    return dl_error_set(err, DL_ERR_NAME, "'%s' is neither a file nor a machine%s", name, hint);
}

/* Returns the error for `part`, which starts at byte `at` of a name with several parts, and
 * suggests the name with the nearest GPU in its place. */
static dl_status refuse_part(const dl_machine_tables *t, const char *name, size_t at,
                             const char *part, dl_error *err)
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
                        (int)at, name, count > 0 ? count : 1,
                        dl_machine_cell(&t->gpus, (size_t)row, "name"), name + at + strlen(part));
}

/* Parses "+nvlink": adds bridges to all parts that can have them. */
static dl_status want_bridges(const dl_machine_tables *t, const char *name, dl_wanted_nodes *w,
                              dl_error *err)
{
    for (int p = 0; p < w->part_count; p++) {
        const dl_wanted_gpus *part = &w->parts[p];
        w->bridges |=
            part->count > 1 && dl_machine_rate(&t->gpus, (size_t)part->gpu, "bridge_rate") > 0;
    }
    if (w->bridges) return DL_OK;
    const char *title =
        w->part_count > 0 ? dl_machine_cell(&t->gpus, (size_t)w->parts[0].gpu, "title") : "";
    if (w->part_count > 0 &&
        dl_machine_rate(&t->gpus, (size_t)w->parts[0].gpu, "bridge_rate") > 0) {
        return dl_error_set(err, DL_ERR_RANGE, "'%s': an NVLink bridge joins two GPUs", name);
    }
    return dl_error_set(err, DL_ERR_NAME,
                        "'%s': NVLink bridges of %s are not known; a machine file's [nvlinks] "
                        "joins GPUs (docs/formats.md), as machines/dgx1_v100.ini does",
                        name, title);
}

/* Parses "1xgtx1080ti+1xrtx2080ti", the parts of a box, which start at byte `at` of the whole
 * name. */
static dl_status understand_box(const dl_machine_tables *t, const char *name, size_t at,
                                const char *box, dl_wanted_nodes *w, dl_error *err)
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
        const int row = gpu != part ? dl_machine_row(&t->gpus, gpu) : -1;
        if (dl_names_alike(part, "nvlink") && (rest == NULL || rest[0] == '\0')) {
            status = want_bridges(t, name, w, err);
        } else if (row < 0) {
            status = strchr(name, '+') != NULL
                         ? refuse_part(t, name, at + (size_t)(part - copy), part, err)
                         : refuse_name(box, err);
        } else if (count < 1 || count > DL_BOX_GPUS_MAX - w->gpus) {
            status = dl_error_set(err, DL_ERR_RANGE,
                                  "'%s': expected 1 to %d GPUs in a box; "
                                  "several boxes have a network, as 4x8xrtx3090@100gbe",
                                  box, DL_BOX_GPUS_MAX);
        } else {
            w->parts[w->part_count++] = (dl_wanted_gpus){count, row};
            w->gpus += count;
        }
    }
    free(copy);
    return status;
}

/* Networks after '@': the latency is assumed, as in instances.csv. The generations of InfiniBand
 * have a rate, of a port with four lanes (IBTA's road map). */
static const dl_wanted_network networks[] = {
    {"gbe", "Ethernet", "25us", 0, false},     {"gige", "Ethernet", "25us", 0, false},
    {"ib", "InfiniBand", "1.3us", 0, true},    {"infiniband", "InfiniBand", "1.3us", 0, true},
    {"fdr", "InfiniBand", "1.3us", 56, true},  {"edr", "InfiniBand", "1.3us", 100, true},
    {"hdr", "InfiniBand", "1.3us", 200, true}, {"ndr", "InfiniBand", "1.3us", 400, true},
    {"xdr", "InfiniBand", "1.3us", 800, true}, {"roce", "RoCE", "2us", 0, true},
    {"efa", "EFA", "15us", 0, true},
};

/* Parses "10gbe", "200ib", "ndr", "8x400ib": the ports of a node, with rates in Gb/s. */
static dl_status understand_network(const char *name, const char *network, dl_wanted_nodes *w,
                                    dl_error *err)
{
    const char *rate = network;
    const long ports = count_before(network, &rate);
    const size_t digits = strspn(rate, "0123456789.");
    char *end = NULL;
    w->ports = rate != network ? ports : 1;
    w->network_gbit_per_s = digits > 0 ? strtod(rate, &end) : 0;
    for (size_t n = 0; n < DL_LENGTH(networks) && (digits == 0 || end == rate + digits); n++)
        if (dl_names_alike(networks[n].word, rate + digits)) w->network = &networks[n];
    const bool known = w->network != NULL;
    if (known && digits == 0) w->network_gbit_per_s = w->network->gbit_per_s;
    if (known && w->ports >= 1 && w->ports <= PORTS_MAX && w->network_gbit_per_s >= 0.1 &&
        w->network_gbit_per_s <= 10000) {
        return DL_OK;
    }
    return dl_error_set(
        err, DL_ERR_NAME,
        "'%s': expected a network after '@' in Gb/s, such as 10gbe (Ethernet over "
        "TCP), 200ib (InfiniBand), 100roce, or 8x400ib (a node has 8 ports; at most %d)",
        name, PORTS_MAX);
}

/* Parses "2xrtx3090", "2xrtx3090@1gbe", "4x2xrtx3090@1gbe": equal boxes, which are nodes if a
 * network is given. `text` starts at byte `at` of the whole name. */
static dl_status understand_boxes(const dl_machine_tables *t, const char *name, size_t at,
                                  const char *text, dl_wanted_nodes *w, dl_error *err)
{
    const char *network = strchr(text, '@'), *box = NULL, *gpus = NULL;
    DL_AUTOFREE char *boxes =
        dl_strndup(text, network != NULL ? (size_t)(network - text) : strlen(text));
    const long count = count_before(boxes, &box);
    if (count_before(box, &gpus) == 0) box = boxes; /* a single count is that of GPUs */
    const bool several = box != boxes;
    *w = (dl_wanted_nodes){.nodes = several ? count : 1};
    dl_status status = understand_box(t, name, at + (size_t)(box - boxes), box, w, err);
    if (status == DL_OK && network != NULL) {
        status = understand_network(name, network + 1, w, err);
    }
    if (status == DL_OK && several && (count < 1 || count > NODES_MAX)) {
        status = dl_error_set(err, DL_ERR_RANGE, "'%s': expected 1 to %d nodes", name, NODES_MAX);
    } else if (status == DL_OK && network == NULL &&
               ((several && count > 1) || strchr(name, '@') != NULL)) {
        status =
            dl_error_set(err, DL_ERR_NAME, "'%s': nodes need a network, as %s@10gbe", name, name);
    }
    return status;
}

/* Parses "2x4xa100@200ib+1x8xv100@100ib": kinds of nodes, each ending with its network. */
static dl_status understand_kinds(const dl_machine_tables *t, const char *name,
                                  dl_wanted_machine *w, dl_error *err)
{
    dl_status status = DL_OK;
    long nodes = 0;
    for (const char *at = name, *end; at != NULL && status == DL_OK; at = end) {
        const char *network = strchr(at, '@');
        end = network != NULL ? strchr(network, '+') : NULL;
        if (w->kind_count == DL_BOX_KINDS_MAX) {
            return dl_error_set(err, DL_ERR_RANGE, "'%s': at most %d kinds of nodes", name,
                                DL_BOX_KINDS_MAX);
        }
        DL_AUTOFREE char *text = dl_strndup(at, end != NULL ? (size_t)(end - at) : strlen(at));
        status =
            understand_boxes(t, name, (size_t)(at - name), text, &w->kinds[w->kind_count], err);
        if (status == DL_OK) nodes += w->kinds[w->kind_count++].nodes;
        if (end != NULL) end++;
    }
    if (status != DL_OK || nodes <= NODES_MAX) return status;
    return dl_error_set(err, DL_ERR_RANGE, "'%s': expected 1 to %d nodes", name, NODES_MAX);
}

/* Rejects ports of an instance, which the provider fixes. */
static dl_status refuse_network(const dl_machine_tables *t, const char *name, const char *instance,
                                dl_error *err)
{
    const size_t bytes = strcspn(instance, "@");
    DL_AUTOFREE char *alone = dl_strndup(instance, bytes);
    const int row = instance[bytes] == '@' ? dl_machine_row(&t->instances, alone) : -1;
    if (row < 0) return DL_OK;
    const char *gpus = dl_machine_cell(&t->instances, (size_t)row, "gpus");
    return dl_error_set(err, DL_ERR_NAME,
                        "'%s': an instance has a network of its own; with another write the box: "
                        "%.*s%ldx%s%s%s",
                        name, (int)(strlen(name) - strlen(instance)), name, strtol(gpus, NULL, 10),
                        dl_machine_cell(&t->instances, (size_t)row, "gpu"),
                        dl_ends_with(gpus, "+nvlink") ? "+nvlink" : "", instance + bytes);
}

/* Parses "2xdgx_h100", "4xdgx1_v100@100ib": nodes of a machine file, optionally with other
 * ports. */
static dl_status understand_file(const char *name, const char *text, long nodes,
                                 dl_wanted_machine *w, dl_error *err)
{
    const char *network = strchr(text, '@');
    w->kinds[w->kind_count++].nodes = nodes;
    if (nodes < 1 || nodes > NODES_MAX) {
        return dl_error_set(err, DL_ERR_RANGE, "'%s': expected 1 to %d nodes", name, NODES_MAX);
    }
    return network != NULL ? understand_network(name, network + 1, w->kinds, err) : DL_OK;
}

dl_status dl_machine_understand(const dl_machine_tables *t, const char *name, dl_wanted_machine *w,
                                dl_error *err)
{
    const int whole = dl_machine_row(&t->instances, name);
    const char *rest = name, *box = NULL;
    const long count = whole < 0 ? count_before(name, &rest) : 0, nodes = rest != name ? count : 1;
    *w = (dl_wanted_machine){.instance = whole < 0 ? dl_machine_row(&t->instances, rest) : whole};
    DL_AUTOFREE char *alone = dl_strndup(rest, strcspn(rest, "@"));
    if (w->instance < 0) w->file = dl_machine_file(alone);
    w->counted = rest != name && strchr(name, '+') == NULL &&
                 (w->instance >= 0 || w->file != NULL || count_before(rest, &box) > 0);
    if (w->file != NULL) return understand_file(name, rest, nodes, w, err);
    if (w->instance < 0) {
        const dl_status status = refuse_network(t, name, rest, err);
        return status == DL_OK ? understand_kinds(t, name, w, err) : status;
    }
    const size_t row = (size_t)w->instance;
    dl_wanted_nodes *kind = &w->kinds[w->kind_count++];
    kind->nodes = nodes;
    kind->gpus = strtol(dl_machine_cell(&t->instances, row, "gpus"), NULL, 10);
    kind->parts[kind->part_count++] = (dl_wanted_gpus){
        kind->gpus, dl_machine_row(&t->gpus, dl_machine_cell(&t->instances, row, "gpu"))};
    kind->bridges = dl_ends_with(dl_machine_cell(&t->instances, row, "gpus"), "+nvlink");
    if (kind->nodes > 1 && dl_machine_cell(&t->instances, row, "nics")[0] == '\0') {
        return dl_error_set(err, DL_ERR_NAME,
                            "'%s': the network between these instances is not known; give it as "
                            "%ldx%ldx%s@10gbe",
                            name, nodes, kind->gpus, dl_machine_cell(&t->instances, row, "gpu"));
    }
    if (kind->nodes >= 1 && kind->nodes <= NODES_MAX && kind->gpus <= DL_RACK_GPUS_MAX)
        return DL_OK;
    return dl_error_set(err, DL_ERR_RANGE, "'%s': expected 1 to %d nodes", name, NODES_MAX);
}

static void complete_rows(FILE *out, const char *typed, size_t kept, const dl_csv *table)
{
    for (size_t r = 0; r < table->rows; r++)
        dl_complete_word(out, typed, kept, dl_machine_cell(table, r, "name"));
}

void dl_machines_complete(FILE *out, const char *typed, size_t kept)
{
    DL_SCOPED(dl_machine_tables) t = {0};
    char **files = NULL;
    const char *last = strrchr(typed + kept, '+'), *rest = NULL;
    const char *name = last != NULL ? last + 1 : typed + kept;
    int counts = 0;
    for (; count_before(name, &rest) > 0; counts++)
        name = rest;
    kept = (size_t)(name - typed);
    if (dl_machine_tables_read(&t, NULL) != DL_OK) return;
    if (last == NULL && counts < 2) {
        const size_t count = dl_machine_files(&files);
        for (size_t i = 0; i < count; i++)
            dl_complete_word(out, typed, kept, files[i]);
        dl_ini_free_list(files, count);
        complete_rows(out, typed, kept, &t.instances);
    }
    if (counts > 0) complete_rows(out, typed, kept, &t.gpus);
}
