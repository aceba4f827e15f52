#include "sim/network/machine_graph.h"

#include "common/output.h"

/* Writes text within double quotes. */
static void write_quoted(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', out);
        fputc(*text, out);
    }
}

/* Writes the rest of an edge's line: its label, dashed if assumed. */
static void write_link(FILE *out, const dl_link_class *class, int lanes)
{
    fprintf(out, " [label=\"");
    write_quoted(out, class->name);
    if (lanes > 1) fprintf(out, " x %d", lanes);
    fprintf(out, "\\n%.4g GB/s", lanes * class->bytes_per_s.value / 1e9);
    if (class->duplex_bytes_per_s.known) {
        fprintf(out, "\\n%.4g both ways", lanes * class->duplex_bytes_per_s.value / 1e9);
    }
    bool assumed = class->bytes_per_s.origin == DL_ORIGIN_ASSUMED;
    fprintf(out, "\"%s];\n", assumed ? ", style=dashed" : "");
}

/* One node; `prefix` precedes the names of its parts. */
typedef struct drawing {
    const dl_machine *machine;
    const dl_node_kind *node;
    char prefix[16]; /* "" if only one kind of node is drawn */
    FILE *out;
} drawing;

/* Writes sockets, each with its memory, and the links between them. */
static void write_sockets(const drawing *d)
{
    const dl_node_kind *n = d->node;
    const char *in = d->prefix;
    FILE *out = d->out;
    for (int s = 0; s < n->sockets; s++) {
        fprintf(out, "  %ssocket%d [shape=box, label=\"socket %d", in, s, s);
        if (n->root_bytes_per_s.known) {
            fprintf(out, "\\nroot %.4g GB/s", n->root_bytes_per_s.value / 1e9);
        }
        fprintf(out, "\"];\n  %smemory%d [shape=cylinder, label=\"memory %d\"];\n", in, s, s);
        bool assumed = n->memory_bytes_per_s.origin == DL_ORIGIN_ASSUMED;
        fprintf(out, "  %smemory%d -- %ssocket%d [label=\"%.4g GB/s\"%s];\n", in, s, in, s,
                n->memory_bytes_per_s.value / 1e9, assumed ? ", style=dashed" : "");
        for (int other = 0; other < s; other++) {
            fprintf(out, "  %ssocket%d -- %ssocket%d", in, other, in, s);
            write_link(out, &d->machine->classes[n->socket_link], 1);
        }
    }
}

/* Writes an edge from a socket or a switch down to a part below it. */
static void write_edge(const drawing *d, int parent, const char *part, int number, int link)
{
    const int sockets = d->node->sockets;
    fprintf(d->out, "  %s%s%d -- %s%s%d", d->prefix, parent < sockets ? "socket" : "switch",
            parent < sockets ? parent : parent - sockets, d->prefix, part, number);
    write_link(d->out, &d->machine->classes[link], 1);
}

static void write_tree(const drawing *d)
{
    const dl_node_kind *n = d->node;
    const char *in = d->prefix;
    FILE *out = d->out;
    for (int i = 0; i < n->switch_count; i++) {
        fprintf(out, "  %sswitch%d [shape=diamond, label=\"", in, i);
        write_quoted(out, n->switches[i].name);
        fprintf(out, "\"];\n");
        write_edge(d, n->switches[i].parent, "switch", i, n->switches[i].link);
    }
    for (int i = 0; i < n->gpu_count; i++) {
        fprintf(out, "  %sgpu%d [shape=box, style=rounded, label=\"gpu %d\\n", in, i, i);
        write_quoted(out, d->machine->models[n->gpus[i].model].name);
        fprintf(out, "\"];\n");
        write_edge(d, n->gpus[i].parent, "gpu", i, n->gpus[i].link);
    }
    for (int i = 0; i < n->nic_count; i++) {
        fprintf(out, "  %snic%d [shape=component, label=\"nic %d\"];\n", in, i, i);
        write_edge(d, n->nics[i].parent, "nic", i, n->nics[i].link);
    }
}

static void write_nvlinks(const drawing *d)
{
    const dl_node_kind *n = d->node;
    const char *in = d->prefix;
    const dl_link_class *classes = d->machine->classes;
    for (int i = 0; i < n->nvlink_count; i++) {
        fprintf(d->out, "  %sgpu%d -- %sgpu%d", in, n->nvlinks[i].a, in, n->nvlinks[i].b);
        write_link(d->out, &classes[n->nvlinks[i].link], n->nvlinks[i].lanes);
    }
    if (n->nvswitch_link < 0) return;
    fprintf(d->out, "  %snvswitch [shape=hexagon, label=\"NVSwitch%s\"];\n", in,
            n->nvswitch_sum_frac.known ? "\\nsums" : "");
    for (int i = 0; i < n->gpu_count; i++) {
        fprintf(d->out, "  %sgpu%d -- %snvswitch", in, i, in);
        write_link(d->out, &classes[n->nvswitch_link], 1);
    }
}

static void write_ports(const drawing *d)
{
    for (int i = 0; i < d->node->nic_count; i++) {
        fprintf(d->out, "  %snic%d -- network", d->prefix, i);
        write_link(d->out, &d->machine->classes[d->node->nics[i].port], 1);
    }
}

/* Writes the network, which is outside of the nodes. */
static void write_network(const dl_machine *m, FILE *out)
{
    fprintf(out, "  network [shape=ellipse, label=\"network");
    if (m->network_bytes_per_s.known) {
        fprintf(out, "\\n%.4g GB/s", m->network_bytes_per_s.value / 1e9);
    }
    fprintf(out, "\"];\n");
}

static void write_node(const drawing *d)
{
    write_sockets(d);
    write_tree(d);
    write_nvlinks(d);
}

static int nodes_of(const dl_machine *m, int kind)
{
    int nodes = 0;
    for (int r = 0; r < m->run_count && m->runs[r].first < m->nodes; r++) {
        const int next = r + 1 < m->run_count ? m->runs[r + 1].first : m->nodes;
        const int end = next < m->nodes ? next : m->nodes;
        nodes += m->runs[r].kind == kind ? end - m->runs[r].first : 0;
    }
    return nodes;
}

/* Writes one node of each kind in use, each in a box. */
static void write_kinds(const dl_machine *m, FILE *out)
{
    for (int k = 0; k < m->kind_count; k++) {
        drawing d = {.machine = m, .node = &m->kinds[k], .out = out};
        const int nodes = nodes_of(m, k);
        if (nodes == 0) continue;
        snprintf(d.prefix, sizeof d.prefix, "kind%d_", k);
        fprintf(out, "  subgraph cluster_kind%d {\n  label=\"", k);
        if (d.node->name != NULL) {
            write_quoted(out, d.node->name);
            fprintf(out, ": ");
        }
        fprintf(out, "%s%d node%s\";\n", nodes > 1 ? "one of " : "", nodes, nodes > 1 ? "s" : "");
        write_node(&d);
        fprintf(out, "  }\n");
        write_ports(&d);
    }
}

void dl_machine_graph_write(const dl_machine *machine, FILE *out)
{
    const int first = dl_machine_kind(machine, 0);
    const bool several = nodes_of(machine, first) < machine->nodes;
    const drawing d = {.machine = machine, .node = &machine->kinds[first], .out = out};
    fprintf(out, "graph machine {\n  label=\"");
    write_quoted(out, machine->name);
    if (machine->nodes > 1 && !several) fprintf(out, ", one of %d nodes", machine->nodes);
    fprintf(out, "\";\n");
    if (!several) write_node(&d);
    if (several || d.node->nic_count > 0) write_network(machine, out);
    if (several) {
        write_kinds(machine, out);
    } else {
        write_ports(&d);
    }
    fprintf(out, "}\n");
}

dl_status dl_machine_graph_save(const dl_machine *machine, const char *path, dl_error *err)
{
    dl_output output = {0};
    const dl_status status = dl_output_open(&output, path, err);
    if (status != DL_OK) return status;
    dl_machine_graph_write(machine, output.out);
    return dl_output_close(&output, err);
}
