#include "sim/network/machine_graph.h"

#include "common/output.h"

/* Text inside of double quotes. */
static void write_quoted(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', out);
        fputc(*text, out);
    }
}

/* The end of an edge's line: its label, and the style of what is assumed. */
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

/* Sockets, each with its memory, and the links between them. */
static void write_sockets(const dl_machine *m, FILE *out)
{
    for (int s = 0; s < m->sockets; s++) {
        fprintf(out, "  socket%d [shape=box, label=\"socket %d", s, s);
        if (m->root_bytes_per_s.known) {
            fprintf(out, "\\nroot %.4g GB/s", m->root_bytes_per_s.value / 1e9);
        }
        fprintf(out, "\"];\n  memory%d [shape=cylinder, label=\"memory %d\"];\n", s, s);
        bool assumed = m->memory_bytes_per_s.origin == DL_ORIGIN_ASSUMED;
        fprintf(out, "  memory%d -- socket%d [label=\"%.4g GB/s\"%s];\n", s, s,
                m->memory_bytes_per_s.value / 1e9, assumed ? ", style=dashed" : "");
        for (int other = 0; other < s; other++) {
            fprintf(out, "  socket%d -- socket%d", other, s);
            write_link(out, &m->classes[m->socket_link], 1);
        }
    }
}

/* The upper end of an edge: a socket or a switch, and what hangs below it. */
static void write_up(const dl_machine *m, FILE *out, int parent)
{
    const char *kind = parent < m->sockets ? "socket" : "switch";
    fprintf(out, "  %s%d -- ", kind, parent < m->sockets ? parent : parent - m->sockets);
}

static void write_tree(const dl_machine *m, FILE *out)
{
    for (int i = 0; i < m->switch_count; i++) {
        fprintf(out, "  switch%d [shape=diamond, label=\"", i);
        write_quoted(out, m->switches[i].name);
        fprintf(out, "\"];\n");
        write_up(m, out, m->switches[i].parent);
        fprintf(out, "switch%d", i);
        write_link(out, &m->classes[m->switches[i].link], 1);
    }
    for (int i = 0; i < m->gpu_count; i++) {
        fprintf(out, "  gpu%d [shape=box, style=rounded, label=\"gpu %d\\n", i, i);
        write_quoted(out, m->models[m->gpus[i].model].name);
        fprintf(out, "\"];\n");
        write_up(m, out, m->gpus[i].parent);
        fprintf(out, "gpu%d", i);
        write_link(out, &m->classes[m->gpus[i].link], 1);
    }
    for (int i = 0; i < m->nic_count; i++) {
        fprintf(out, "  nic%d [shape=component, label=\"nic %d\"];\n", i, i);
        write_up(m, out, m->nics[i].parent);
        fprintf(out, "nic%d", i);
        write_link(out, &m->classes[m->nics[i].link], 1);
    }
}

static void write_nvlinks(const dl_machine *m, FILE *out)
{
    for (int i = 0; i < m->nvlink_count; i++) {
        fprintf(out, "  gpu%d -- gpu%d", m->nvlinks[i].a, m->nvlinks[i].b);
        write_link(out, &m->classes[m->nvlinks[i].link], m->nvlinks[i].lanes);
    }
    if (m->nvswitch_link < 0) return;
    fprintf(out, "  nvswitch [shape=hexagon, label=\"NVSwitch%s\"];\n",
            m->nvswitch_sum_frac.known ? "\\nsums" : "");
    for (int i = 0; i < m->gpu_count; i++) {
        fprintf(out, "  gpu%d -- nvswitch", i);
        write_link(out, &m->classes[m->nvswitch_link], 1);
    }
}

/* Ports of the NICs; the network is outside of the node. */
static void write_network(const dl_machine *m, FILE *out)
{
    if (m->nic_count == 0) return;
    fprintf(out, "  network [shape=ellipse, label=\"network");
    if (m->network_bytes_per_s.known) {
        fprintf(out, "\\n%.4g GB/s", m->network_bytes_per_s.value / 1e9);
    }
    fprintf(out, "\"];\n");
    for (int i = 0; i < m->nic_count; i++) {
        fprintf(out, "  nic%d -- network", i);
        write_link(out, &m->classes[m->nics[i].port], 1);
    }
}

void dl_machine_graph_write(const dl_machine *machine, FILE *out)
{
    fprintf(out, "graph machine {\n  label=\"");
    write_quoted(out, machine->name);
    if (machine->nodes > 1) fprintf(out, ", one of %d nodes", machine->nodes);
    fprintf(out, "\";\n");
    write_sockets(machine, out);
    write_tree(machine, out);
    write_nvlinks(machine, out);
    write_network(machine, out);
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
