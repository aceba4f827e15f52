/* Generates the text of the machine file of a box, an instance, or modified nodes of a machine
 * file. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/file.h"
#include "common/ini.h"
#include "common/machine_shm.h"
#include "sim/scenario/machine_catalogue_internal.h"

#define GPUS_OF_A_SOCKET 4
#define GPUS_OF_A_BOARD 8
#define GPUS_OF_A_BOX 16 /* maximum of a box; a rack has more */
/* GB200 NVL72 data sheet (2024): 36 Grace, 72 Blackwell; memory of all Grace 18.4 TB/s, and 512
 * GB/s of one in the GH200 data sheet, where each has one GPU. */
#define GPUS_OF_A_GRACE 2
#define GRACE_MEMORY_RATE "512GB/s, catalogue"

/* NVLink bridges: fraction of the data sheet's rate that all-reduces of two GPUs reach, with its
 * bounds; copies reach 94 %. */
#define BRIDGE_FRAC 0.5
#define BRIDGE_LOW 0.38
#define BRIDGE_HIGH 0.94
#define BRIDGE_SOURCE                                                                           \
    "all-reduce over bridges: 21 of 50 GB/s on RTX 2080 Ti (NVIDIA/nccl-tests 44), 115 of 300 " \
    "on H100 PCIe (194), 208 of 300 on A100 PCIe (178)"

#define CLOCK_SOURCE                                                                           \
    "from the base to the boost clock; a T4 fell from 1590 to 900 MHz under load on EC2's G4 " \
    "(mlcommons/inference_results_v0.5 20)"

/* Rate of a parameter server's process over TCP, sum of both directions
 * (docs/studies/frameworks.md). */
#define SERVER_RATE "1.5GB/s (0.5GB/s to 4.5GB/s), assumed"
#define SERVER_SOURCE                                                                            \
    "servers over TCP: TensorFlow on 16 P100 1.0 (VGG16) and 1.8 to 2.3 GB/s (ResNet-101), one " \
    "worker and one server 0.3 to 0.8, by RDMA 3.4"

static void write_rate(FILE *out, const char *key, const char *value, const char *origin)
{
    if (value[0] != '\0') fprintf(out, "%s = %s, %s\n", key, value, origin);
}

static void write_gpu(FILE *out, const dl_csv *gpus, size_t row)
{
    fprintf(out, "\n; %s\n[gpu_model %s]\n", dl_machine_cell(gpus, row, "source"),
            dl_machine_cell(gpus, row, "name"));
    write_rate(out, "memory_bytes", dl_machine_cell(gpus, row, "memory"), "catalogue");
    write_rate(out, "memory_bytes_per_s", dl_machine_cell(gpus, row, "memory_rate"), "catalogue");
    write_rate(out, "fp32_flop_per_s", dl_machine_cell(gpus, row, "fp32"), "catalogue");
    write_rate(out, "tf32_flop_per_s", dl_machine_cell(gpus, row, "tf32"), "catalogue");
    write_rate(out, "fp16_flop_per_s", dl_machine_cell(gpus, row, "fp16"), "catalogue");
    write_rate(out, "bf16_flop_per_s", dl_machine_cell(gpus, row, "bf16"), "catalogue");
    write_rate(out, "fp8_flop_per_s", dl_machine_cell(gpus, row, "fp8"), "catalogue");
    write_rate(out, "nvfp4_flop_per_s", dl_machine_cell(gpus, row, "nvfp4"), "catalogue");
    write_rate(out, "compute_capability", dl_machine_cell(gpus, row, "capability"), "catalogue");
    const char *clock = dl_machine_cell(gpus, row, "clock");
    write_rate(out, "clock_frac", clock, "assumed");
    if (clock[0] != '\0') fprintf(out, "source = %s\n", CLOCK_SOURCE);
}

/* Returns the number of a part's GPUs that NVLink-C2C joins to a Grace: GPUS_OF_A_GRACE in racks
 * with NVSwitch, else 1; 0: none. */
static int gpus_of_a_grace(const dl_machine_tables *t, const dl_wanted_gpus *part)
{
    const char *bus = dl_machine_cell(&t->gpus, (size_t)part->gpu, "bus");
    if (strncmp(bus, DL_MACHINE_C2C, strlen(DL_MACHINE_C2C)) != 0) return 0;
    return dl_machine_cell(&t->gpus, (size_t)part->gpu, "fabric")[0] != '\0' ? GPUS_OF_A_GRACE : 1;
}

/* Whether NVLink-C2C joins all GPUs of a node to their processors, which are Graces. */
static bool is_grace(const dl_machine_tables *t, const dl_wanted_nodes *kind)
{
    for (int p = 0; p < kind->part_count; p++)
        if (gpus_of_a_grace(t, &kind->parts[p]) == 0) return false;
    return true;
}

/* Returns the number of processors: one per GPU or two with Grace processors, one per two GPUs in a
 * rack; else two for more than four GPUs. */
static int sockets_of(const dl_machine_tables *t, const dl_wanted_nodes *kind)
{
    if (is_grace(t, kind) || kind->gpus > GPUS_OF_A_BOX) {
        const int each = is_grace(t, kind) ? gpus_of_a_grace(t, &kind->parts[0]) : GPUS_OF_A_GRACE;
        return (int)((kind->gpus + each - 1) / each);
    }
    return kind->gpus > GPUS_OF_A_SOCKET ? 2 : 1;
}

/* Returns the machine file with the NVLink of a node's GPUs, which are sold on its board only;
 * "" if there is none, or if the node is not such a board. */
static const char *board_of(const dl_machine_tables *t, const dl_wanted_nodes *kind)
{
    if (kind->part_count > 1 || kind->gpus < 2 || kind->gpus > GPUS_OF_A_BOARD) return "";
    return dl_machine_cell(&t->gpus, (size_t)kind->parts[0].gpu, "board");
}

/* Returns the fabric that connects the GPUs of a node: "nvswitch", "mesh" or the machine file of
 * their board; "" if there is none or the models differ. */
static const char *fabric_of(const dl_machine_tables *t, const dl_wanted_nodes *kind)
{
    if (kind->part_count > 1) return "";
    const char *board = board_of(t, kind);
    return board[0] != '\0' ? board
                            : dl_machine_cell(&t->gpus, (size_t)kind->parts[0].gpu, "fabric");
}

/* Whether an NVSwitch connects the GPUs of every node: NCCL's choice of algorithm is known only for
 * these; for other machines the fastest algorithm is assumed. */
static bool has_nvswitches(const dl_machine_tables *t, const dl_wanted_machine *w)
{
    for (int k = 0; k < w->kind_count; k++) {
        if (w->kinds[k].gpus < 2 || strcmp(fabric_of(t, &w->kinds[k]), "nvswitch") != 0)
            return false;
    }
    return true;
}

typedef struct written_link {
    char *name, *text;
} written_link;

/* State while a machine's text is written. */
typedef struct writer {
    FILE *out;
    const dl_machine_tables *t;
    const dl_wanted_machine *w;
    const dl_wanted_nodes *kind; /* the current kind of nodes */
    char of[16];                 /* suffix of the kind's sections, " of box2"; "" for the first
                                  * kind */
    written_link links[(3 + DL_BOX_GPUS_MAX) * DL_BOX_KINDS_MAX];
    size_t link_count;
} writer;

static void free_links(writer *to)
{
    for (size_t i = 0; i < to->link_count; i++) {
        free(to->links[i].name);
        free(to->links[i].text);
    }
}

/* Writes a link, preceded by `note`, unless an earlier kind of node has a link with the same text;
 * returns the link's name. Takes ownership of `text`. */
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

/* Rates reached by links to an NVSwitch, by their data-sheet rate, and fractions reached by
 * in-network reductions (NVLS, from the third generation on). */
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

/* Writes the pairs "0-1, 0-2, ..." of which both GPUs are below `gpus`; returns their number. */
static int write_pairs(FILE *out, const dl_ini *ini, const dl_ini_entry *pairs, long gpus)
{
    char **items = NULL;
    size_t item_count = 0;
    int count = 0, first, last;
    const dl_status status = dl_ini_split(ini, pairs, &items, &item_count, NULL);
    DL_ASSERT(status == DL_OK, "pairs of a board: %s", pairs->value);
    for (size_t i = 0; i < item_count; i++) {
        const bool pair = dl_machine_parse_range(items[i], DL_MACHINE_MAX_PARTS, &first, &last);
        if (!pair || last < gpus) fprintf(out, "%s%s", count++ > 0 ? ", " : "", items[i]);
    }
    dl_ini_free_list(items, item_count);
    return count;
}

/* Writes the board's NVLink between the node's GPUs, which take the board's first places. */
static void write_board(writer *to, const char *board)
{
    DL_SCOPED(dl_ini) ini = {0};
    dl_error err = {0};
    DL_AUTOFREE char *path = dl_machine_file(board);
    const dl_status status = path != NULL ? dl_ini_read(&ini, path, &err) : DL_ERR_DATA;
    DL_ASSERT(status == DL_OK, "machine file of the board %s: %s", board, err.text);
    for (size_t s = 0; s < ini.section_count; s++) {
        const char *section = ini.sections[s].name;
        const dl_ini_entry *link = dl_ini_find(&ini, section, "link");
        const dl_ini_entry *pairs = dl_ini_find(&ini, section, "pairs");
        const dl_ini_entry *lanes = dl_ini_find(&ini, section, "lanes");
        DL_AUTOFREE char *text = NULL, *name = NULL;
        size_t bytes = 0;
        if (strncmp(section, "nvlinks ", 8) != 0 || link == NULL || pairs == NULL) continue;
        FILE *out = dl_text_stream(&text, &bytes);
        const int count = write_pairs(out, &ini, pairs, to->kind->gpus);
        fclose(out);
        if (count > 0) {
            char *note = dl_format("\n; As in machines/%s.ini.\n", board), *rates = NULL;
            name = dl_format("link %s", link->value);
            for (size_t e = 0; e < ini.count; e++)
                if (strcmp(ini.entries[e].section, name) == 0) {
                    DL_AUTOFREE char *line =
                        dl_format("%s = %s\n", ini.entries[e].key, ini.entries[e].value);
                    dl_join(&rates, "", line);
                }
            const char *class = write_link(to, link->value, note, rates);
            fprintf(to->out, "[%s%s]\nlink = %s\npairs = %s\n", section, to->of, class, text);
            if (lanes != NULL) fprintf(to->out, "lanes = %s\n", lanes->value);
            free(note);
        }
    }
}

/* Writes the NVSwitch or the mesh of links between a node's GPUs, with the rates that copies
 * reach. */
static void write_fabric(writer *to)
{
    const size_t gpu = (size_t)to->kind->parts[0].gpu;
    const char *fabric = fabric_of(to->t, to->kind);
    const double rate = dl_machine_rate(&to->t->gpus, gpu, "fabric_rate");
    if (fabric[0] == '\0' || to->kind->gpus < 2) return;
    if (board_of(to->t, to->kind)[0] != '\0') {
        write_board(to, fabric);
        return;
    }
    const bool mesh = strcmp(fabric, "mesh") == 0;
    const fabric_rates *known = reached;
    while (known->gb_per_s != 0 && known->gb_per_s * 1e9 != rate)
        known++;
    DL_AUTOFREE char *rates = known->gb_per_s != 0
                                  ? dl_strdup(known->rates)
                                  : dl_format("bytes_per_s = %gGB/s, assumed\n", 0.84 * rate / 1e9);
    const char *link = write_link(
        to, mesh ? "xgmi" : "nvlink",
        "\n; As all-reduces have it of their generations (A100 and H100: machines/dgx_a100.ini, "
        "dgx_h100.ini);\n; of others 0.84 of the data sheet's rate.\n",
        dl_format("%slatency_ns = 0.35us, assumed\n", rates));
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

/* Writes NVLink bridges between GPUs 0 and 1, 2 and 3 of each part that has them. */
static void write_bridges(writer *to)
{
    long first = 0;
    for (int p = 0; p < to->kind->part_count && to->kind->bridges; p++) {
        const dl_wanted_gpus *part = &to->kind->parts[p];
        const double rate = dl_machine_rate(&to->t->gpus, (size_t)part->gpu, "bridge_rate");
        const char *name = dl_machine_cell(&to->t->gpus, (size_t)part->gpu, "name");
        for (long g = first; rate > 0 && g + 1 < first + part->count; g += 2) {
            if (g == first) {
                DL_AUTOFREE char *class = dl_format("bridge_%s", name);
                const char *link = write_link(
                    to, class, "\n",
                    dl_format("bytes_per_s = %gGB/s (%gGB/s to %gGB/s), assumed\n"
                              "latency_ns = 0.7us, assumed\nsource = " BRIDGE_SOURCE "\n",
                              BRIDGE_FRAC * rate / 1e9, BRIDGE_LOW * rate / 1e9,
                              BRIDGE_HIGH * rate / 1e9));
                fprintf(to->out, "[nvlinks %s%s]\nlink = %s\npairs = ", name, to->of, link);
            }
            fprintf(to->out, "%s%ld-%ld", g > first ? ", " : "", g, g + 1);
        }
        if (rate > 0 && part->count > 1) fputs("\n", to->out);
        first += part->count;
    }
}

/* Returns the value of `peer`. Copies go directly between GPUs only if the GPUs of every part of
 * the box support it, and on instances only over a fabric (NVLink, xGMI). */
static const char *peer_of(const writer *to)
{
    const dl_wanted_nodes *kind = to->kind;
    if (to->w->instance >= 0 && fabric_of(to->t, kind)[0] == '\0') return "none";
    for (int p = 0; p < kind->part_count; p++)
        if (strcmp(dl_machine_cell(&to->t->gpus, (size_t)kind->parts[p].gpu, "peer"), "none") == 0)
            return "none";
    return dl_machine_cell(&to->t->gpus, (size_t)kind->parts[0].gpu, "peer");
}

/* Writes [shm] and [overlap]. Collectives between GPUs in different slots go through host memory
 * even if copies may go directly: NCCL uses direct access only below a PCIe switch or, for two
 * GPUs, on AMD processors (ncclTopoCheckP2p in src/graph/paths.cc at 7aa1c46f). Collectives
 * between nodes with GeForce cards, whose memory ports cannot access either, also go through host
 * memory. With AMD's own library they do not. */
static void write_shm(const writer *to, const dl_machine_bus *bus)
{
    const dl_wanted_nodes *kind = to->kind;
    if (fabric_of(to->t, kind)[0] != '\0' || strcmp(peer_of(to), "all") == 0) return;
    if (kind->gpus > 1) dl_machine_write_overlap(to->out, to->of);
    const bool in_slots = kind->gpus > (kind->bridges ? 2 : 1);
    const bool at_port = kind->ports > 0 && strcmp(peer_of(to), "none") == 0;
    if (!in_slots && (to->w->instance >= 0 || !at_port)) return;
    dl_machine_write_shm(to->out, bus->wire_bytes_per_s, to->w->instance >= 0, to->of);
}

/* Values from NCCL, src/graph/tuning.cc at b6475625: baseLat and hwLat of NVLINK, PCI and NET,
 * ring. The rate of a bridge is already the one that all-reduces reach, and ports have nine tenths
 * of their rate, so protocol simple does not reduce these further. */
static void write_protocols(FILE *out, bool fabric, bool mesh)
{
    static const char *const rows[] = {
        "simple]\nlaunch_ns = 8.4us, catalogue\nhop_ns = 5.7us, catalogue\n"
        "network_hop_ns = 14us, catalogue\nbandwidth_frac = 1, assumed\n",
        "ll]\nlaunch_ns = 6.6us, catalogue\nhop_ns = 0.6us, catalogue\n"
        "network_hop_ns = 2.7us, catalogue\nbandwidth_frac = 0.25, assumed\n",
        "ll128]\nlaunch_ns = 14us, catalogue\nhop_ns = 1.9us, catalogue\n"
        "network_hop_ns = 4us, catalogue\nbandwidth_frac = 0.85, assumed\n",
        "simple]\nlaunch_ns = 8.4us, catalogue\nhop_ns = 3.4us, catalogue\n"
        "network_hop_ns = 14us, catalogue\nbandwidth_frac = 1, assumed\n",
        "simple]\nlaunch_ns = 8.4us, catalogue\nhop_ns = 3.4us, catalogue\n"
        "network_hop_ns = 14us, catalogue\nbandwidth_frac = 0.9, assumed\n",
    };
    fputs("\n; NCCL src/graph/tuning.cc at b6475625: baseLat and hwLat, ring.\n", out);
    for (int r = fabric ? 1 : 0; r < (fabric ? 3 : 1); r++)
        fprintf(out, "[protocol %s", rows[r]);
    if (fabric) fprintf(out, "[protocol %s", rows[mesh ? 4 : 3]);
}

/* Returns the rates that programs reach on a port of `gbit_per_s`: nine tenths of it, or less over
 * TCP, as one socket carries 5 to 10 Gb/s between cloud instances (EC2's limit per flow), and ports
 * beyond 50 Gb/s take several cores. Over InfiniBand and providers' own networks at least 0.7 of
 * it. */
static char *port_rates(double gbit_per_s, bool over_tcp)
{
    const double by_tcp = fmin(0.7 * gbit_per_s, fmax(7, 0.15 * gbit_per_s));
    return dl_format("bytes_per_s = %gGb/s (%gGb/s to %gGb/s), assumed\n", 0.9 * gbit_per_s,
                     over_tcp ? by_tcp : 0.7 * gbit_per_s, 0.97 * gbit_per_s);
}

static bool has_rdma(const dl_wanted_nodes *kind)
{
    return kind->network != NULL && kind->network->rdma;
}

/* Writes the link from the node's ports to the network and returns its name; NULL if there are no
 * ports. */
static const char *write_port(writer *to, const char *name)
{
    const dl_csv *instances = &to->t->instances;
    const dl_wanted_nodes *kind = to->kind;
    const bool made = to->w->instance < 0;
    const size_t row = made ? 0 : (size_t)to->w->instance;
    const double rate =
        made ? kind->network_gbit_per_s * 1e9 / 8 : dl_machine_rate(instances, row, "nic_rate");
    if (!(rate > 0)) return NULL;
    DL_AUTOFREE char *note =
        made ? dl_format("\n; %g Gb/s, of which nine tenths are assumed.\n",
                         kind->network_gbit_per_s)
             : dl_format("\n; %s a port by the provider, of which nine tenths are "
                         "assumed.\n",
                         dl_machine_cell(instances, row, "nic_rate"));
    DL_AUTOFREE char *rates = port_rates(rate * 8 / 1e9, made && !has_rdma(kind));
    return write_link(
        to, name, note,
        dl_format("%slatency_ns = %s, assumed\nsource = nine tenths of the port's rate; "
                  "one socket of TCP carries 5 to 10 Gb/s between instances of a cloud\n",
                  rates,
                  made ? kind->network->latency : dl_machine_cell(instances, row, "nic_latency")));
}

static long port_count(const writer *to)
{
    if (to->w->instance < 0) return to->kind->ports;
    return strtol(dl_machine_cell(&to->t->instances, (size_t)to->w->instance, "nics"), NULL, 10);
}

/* Writes the ports, distributed evenly over the sockets. */
static void write_nics(writer *to, int sockets, const char *bus)
{
    const long nics = port_count(to);
    const char *link = nics < 1 ? NULL : write_port(to, "network");
    for (long n = 0; n < nics && link != NULL; n++) {
        fprintf(to->out, "[nics %ld%s]\nparent = socket%ld\nlink = %s\nport = %s\n", n, to->of,
                n * sockets / nics, bus, link);
    }
}

/* Writes ", 8 x 400 Gb/s InfiniBand". */
static void write_network(FILE *out, const dl_wanted_nodes *kind)
{
    if (!(kind->network_gbit_per_s > 0)) return;
    fputs(", ", out);
    if (kind->ports > 1) fprintf(out, "%ld x ", kind->ports);
    fprintf(out, "%g Gb/s %s", kind->network_gbit_per_s, kind->network->title);
}

/* Writes "2x Tesla V100 + 1x Tesla T4, 10 Gb/s Ethernet"; with several kinds also the number of
 * nodes of each. */
static void write_title(const writer *to)
{
    const dl_wanted_machine *w = to->w;
    for (int k = 0; k < w->kind_count; k++) {
        const dl_wanted_nodes *kind = &w->kinds[k];
        if (k > 0) fputs("; ", to->out);
        if (w->kind_count > 1 && kind->nodes > 1) fprintf(to->out, "%ld of ", kind->nodes);
        for (int p = 0; p < kind->part_count; p++) {
            const size_t gpu = (size_t)kind->parts[p].gpu;
            const char *board = dl_machine_cell(&to->t->gpus, gpu, "board");
            fprintf(to->out, "%s%ldx %s", p > 0 ? " + " : "", kind->parts[p].count,
                    dl_machine_cell(&to->t->gpus, gpu, "title"));
            if (board[0] != '\0' && kind->parts[p].count > 1) {
                fprintf(to->out, " (%s the NVLink of %s)",
                        board_of(to->t, kind)[0] != '\0' ? "with" : "without", board);
            }
        }
        if (kind->bridges) fputs(", NVLink bridges", to->out);
        write_network(to->out, kind);
    }
}

/* Returns the index of the bus of a part's GPUs. */
static size_t bus_of(const dl_machine_tables *t, const dl_wanted_machine *w,
                     const dl_wanted_gpus *part)
{
    const char *own =
        w->instance >= 0 ? dl_machine_cell(&t->instances, (size_t)w->instance, "bus") : "";
    const char *name = own[0] != '\0' ? own : dl_machine_cell(&t->gpus, (size_t)part->gpu, "bus");
    return (size_t)(dl_machine_find_bus(name) - dl_machine_buses);
}

static const dl_machine_bus *newest_bus(const writer *to)
{
    size_t newest = 0;
    for (int p = 0; p < to->kind->part_count; p++) {
        const size_t bus = bus_of(to->t, to->w, &to->kind->parts[p]);
        if (bus > newest) newest = bus;
    }
    return &dl_machine_buses[newest];
}

/* Writes the GPUs part by part, each part distributed evenly over the sockets. */
static void write_gpus(const writer *to, int sockets)
{
    const dl_wanted_nodes *kind = to->kind;
    long first = 0;
    for (int p = 0; p < kind->part_count; p++) {
        const long end = first + kind->parts[p].count;
        while (first < end) {
            long socket = 0;
            while (kind->gpus * (socket + 1) / sockets <= first)
                socket++;
            const long of_socket = kind->gpus * (socket + 1) / sockets;
            const long last = (of_socket < end ? of_socket : end) - 1;
            const int of_grace = gpus_of_a_grace(to->t, &kind->parts[p]);
            fprintf(to->out, "[gpus %ld-%ld%s]\nmodel = %s\nparent = socket%ld\nlink = %s\n", first,
                    last, to->of, dl_machine_cell(&to->t->gpus, (size_t)kind->parts[p].gpu, "name"),
                    socket,
                    of_grace > 0 ? dl_machine_c2c_links[of_grace - 1].name
                                 : dl_machine_buses[bus_of(to->t, to->w, &kind->parts[p])].name);
            first = last + 1;
        }
    }
}

/* Writes the GPU models and buses of all kinds. */
static void write_models(const writer *to)
{
    bool has_bus[DL_MACHINE_BUSES] = {false}, c2c[GPUS_OF_A_GRACE + 1] = {false};
    DL_AUTOFREE bool *has_gpu = dl_calloc(to->t->gpus.rows, sizeof *has_gpu, "models");
    for (int k = 0; k < to->w->kind_count; k++) {
        const dl_wanted_nodes *kind = &to->w->kinds[k];
        for (int p = 0; p < kind->part_count; p++) {
            const size_t gpu = (size_t)kind->parts[p].gpu;
            if (!has_gpu[gpu]) write_gpu(to->out, &to->t->gpus, gpu);
            has_gpu[gpu] = has_bus[bus_of(to->t, to->w, &kind->parts[p])] = true;
            c2c[gpus_of_a_grace(to->t, &kind->parts[p])] = true;
        }
    }
    for (size_t b = 0; b < DL_MACHINE_BUSES; b++)
        if (has_bus[b]) fprintf(to->out, "\n%s", dl_machine_buses[b].links);
    for (int n = 1; n <= GPUS_OF_A_GRACE; n++)
        if (c2c[n]) fprintf(to->out, "\n%s", dl_machine_c2c_links[n - 1].links);
}

/* Writes whether copies between GPUs, and between GPUs and ports, bypass host memory in the kind's
 * nodes. */
static void write_copies(const writer *to)
{
    const dl_wanted_nodes *kind = to->kind;
    fprintf(to->out, "peer = %s\n", peer_of(to));
    if (port_count(to) < 4 || (to->w->instance < 0 && !has_rdma(kind))) return;
    fputs("; Assumed of nodes with four ports or more, but for TCP.\ngpudirect = yes\n", to->out);
}

/* Writes [machine], with the peer of the first kind. */
static void write_head(const writer *to, const char *name)
{
    const dl_csv *instances = &to->t->instances;
    const bool made = to->w->instance < 0;
    const size_t row = made ? 0 : (size_t)to->w->instance;
    const int sockets = sockets_of(to->t, to->kind);
    long nodes = 0;
    for (int k = 0; k < to->w->kind_count; k++)
        nodes += to->w->kinds[k].nodes;
    fprintf(to->out,
            "; %s, made from gpus.csv%s. Assumed: a slot for each GPU, %d processor%s, host "
            "memory.\n",
            name, made ? "" : " and instances.csv", sockets, sockets > 1 ? "s" : "");
    fprintf(to->out, "[machine]\nschema = 1\nname = %s",
            made ? "" : dl_machine_cell(instances, row, "title"));
    write_title(to);
    fprintf(to->out, "\nnodes = %ld\n", nodes);
    if (has_nvswitches(to->t, to->w)) fputs("collectives = nccl\n", to->out);
    write_copies(to);
    if (made) return;
    fprintf(to->out, "; %s; price of %s\n", dl_machine_cell(instances, row, "source"),
            dl_machine_cell(instances, row, "price_date"));
    write_rate(to->out, "price_usd_per_hour", dl_machine_cell(instances, row, "price"),
               "catalogue");
}

/* Writes the sections of one node of the kind. */
static void write_kind(writer *to)
{
    const dl_csv *instances = &to->t->instances;
    const bool made = to->w->instance < 0;
    const size_t row = made ? 0 : (size_t)to->w->instance;
    const int sockets = sockets_of(to->t, to->kind);
    const dl_machine_bus *bus = newest_bus(to);
    const char *socket_link = NULL;
    if (sockets > 1) {
        socket_link = write_link(
            to, "socket", "",
            dl_format("bytes_per_s = %s\nlatency_ns = 0.5us, assumed\n", bus->socket_link));
    }
    fprintf(to->out, "\n[host%s]\nsockets = %d\nmemory_bytes_per_s = %s\n", to->of, sockets,
            is_grace(to->t, to->kind) ? GRACE_MEMORY_RATE : bus->memory_rate);
    if (!has_rdma(to->kind) && port_count(to) > 0)
        fputs("server_bytes_per_s = " SERVER_RATE "\nsource = " SERVER_SOURCE "\n", to->out);
    if (sockets > 1) fprintf(to->out, "socket_link = %s\n", socket_link);
    if (!made && dl_machine_cell(instances, row, "cores")[0] != '\0') {
        fprintf(to->out, "cores = %s\n", dl_machine_cell(instances, row, "cores"));
    }
    if (!made)
        write_rate(to->out, "memory_bytes", dl_machine_cell(instances, row, "memory"), "catalogue");
    write_gpus(to, sockets);
    write_fabric(to);
    write_bridges(to);
    write_shm(to, bus);
    write_nics(to, sockets, bus->name);
}

static void write_machine(FILE *out, const dl_machine_tables *t, const dl_wanted_machine *w,
                          const char *name)
{
    writer to = {.out = out, .t = t, .w = w, .kind = w->kinds};
    bool mesh = false, bridged = false;
    long first = 0;
    write_head(&to, name);
    write_models(&to);
    for (int k = 0; k < w->kind_count; k++) {
        to.kind = &w->kinds[k];
        mesh |= fabric_of(t, to.kind)[0] != '\0' && to.kind->gpus > 1;
        bridged |= to.kind->bridges && to.kind->gpus == 2;
        if (k > 0) {
            snprintf(to.of, sizeof to.of, " of box%d", k + 1);
            fprintf(out, "\n[nodes %ld-%ld]\nkind = box%d\n[machine%s]\n", first,
                    first + to.kind->nodes - 1, k + 1, to.of);
            write_copies(&to);
        }
        write_kind(&to);
        first += to.kind->nodes;
    }
    if (!has_nvswitches(t, w)) write_protocols(out, mesh || bridged, mesh);
    free_links(&to);
}

/* Returns the text without sections whose names start with `section`; the caller frees it. */
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

/* Replaces the ports of a file's nodes. New ports are distributed over the places of the file's
 * ports or, if it has none, over the sockets, with the first GPU's link. */
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

static dl_status write_file_nodes(const dl_machine_tables *t, const dl_wanted_machine *w,
                                  const char *name, const dl_machine *m, char **text, dl_error *err)
{
    const dl_wanted_nodes *kind = w->kinds;
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
    DL_AUTOFREE char *title = NULL, *added = NULL, *kept = without_sections(*text, "nics ");
    size_t bytes = 0;
    FILE *out = dl_text_stream(&title, &bytes);
    fprintf(out, "%s", m->name);
    write_network(out, kind);
    fclose(out);
    free(*text);
    *text = has_rdma(kind) ? without_sections(kept, "tcp]") : dl_strdup(kept);
    if (!has_rdma(kind)) dl_ini_text_set(text, "host", "server_bytes_per_s", SERVER_RATE);
    dl_ini_text_set(text, "machine", "name", title);
    out = dl_text_stream(&added, &bytes);
    writer to = {.out = out, .t = t, .w = w, .kind = kind};
    write_file_ports(&to, m);
    fclose(out);
    free_links(&to);
    dl_join(text, "\n", added);
    return DL_OK;
}

/* Generates the text of a machine file with the number of nodes and the ports in the name. */
static dl_status make_of_file(const dl_machine_tables *t, const dl_wanted_machine *w,
                              const char *name, char **text, dl_error *err)
{
    DL_SCOPED(dl_machine) machine = {0};
    size_t bytes = 0;
    dl_status status = dl_machine_read(&machine, w->file, err);
    if (status != DL_OK) return status;
    status = dl_file_read(w->file, text, &bytes, err);
    if (status == DL_OK) status = write_file_nodes(t, w, name, &machine, text, err);
    if (status != DL_OK) {
        free(*text);
        *text = NULL;
    }
    return status;
}

dl_status dl_machine_make_text(const char *name, char **text, dl_error *err)
{
    DL_SCOPED(dl_machine_tables) t = {0};
    dl_wanted_machine w;
    *text = NULL;
    dl_status status = dl_machine_tables_read(&t, err);
    if (status != DL_OK) return status;
    status = dl_machine_understand(&t, name, &w, err);
    if (status == DL_OK && w.file != NULL) {
        status = make_of_file(&t, &w, name, text, err);
    } else if (status == DL_OK) {
        size_t bytes = 0;
        FILE *out = dl_text_stream(text, &bytes);
        write_machine(out, &t, &w, name);
        fclose(out);
    }
    free(w.file);
    return status;
}
