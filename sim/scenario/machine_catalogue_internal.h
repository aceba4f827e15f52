/* Parts of the machine catalogue: tables, files and parsing of names (machine_names.c), and the
 * generated text of the machine file (machine_text.c). */
#ifndef DL_SIM_MACHINE_CATALOGUE_INTERNAL_H
#define DL_SIM_MACHINE_CATALOGUE_INTERNAL_H

#include "common/csv.h"
#include "sim/scenario/machine_catalogue.h"

#define DL_BOX_GPUS_MAX 16
#define DL_RACK_GPUS_MAX 72 /* maximum number of GPUs of an instance */
#define DL_BOX_KINDS_MAX 16 /* maximum number of kinds of nodes */

typedef struct dl_machine_tables {
    dl_csv gpus, instances;
} dl_machine_tables;

/* Reads the tables of GPUs and instances. */
dl_status dl_machine_tables_read(dl_machine_tables *t, dl_error *err) DL_MUST_CHECK;
void dl_machine_tables_free(dl_machine_tables *t);

/* Returns the table's row with this name, or -1. */
int dl_machine_row(const dl_csv *csv, const char *name);

const char *dl_machine_cell(const dl_csv *csv, size_t row, const char *column);

/* Returns a rate of the table; 0 for an empty cell. */
double dl_machine_rate(const dl_csv *csv, size_t row, const char *column);

/* The bus of GPUs: the text of its link, and values that depend on it. */
typedef struct dl_machine_bus {
    const char *name, *links;
    const char *socket_link, *memory_rate; /* typical values of processors sold with this bus */
    double wire_bytes_per_s;
} dl_machine_bus;

/* Sorted from oldest to newest. */
#define DL_MACHINE_BUSES 7
extern const dl_machine_bus dl_machine_buses[DL_MACHINE_BUSES];

/* DL_MACHINE_C2C: prefix of the bus of GPUs that NVLink-C2C joins to a Grace; the bus then serves
 * their ports only. */
#define DL_MACHINE_C2C "c2c+"

/* Names and texts of the C2C links of one and of two GPUs per Grace. */
typedef struct dl_machine_c2c {
    const char *name, *links;
} dl_machine_c2c;

extern const dl_machine_c2c dl_machine_c2c_links[2];

/* Finds "pcie5x16", or the bus after DL_MACHINE_C2C. Returns NULL for an unknown name. */
const dl_machine_bus *dl_machine_find_bus(const char *name);

/* Returns the number of machine files and their sorted names without ".ini"; the caller frees
 * *names. */
size_t dl_machine_files(char ***names);

/* GPUs of one model. */
typedef struct dl_wanted_gpus {
    long count;
    int gpu; /* row of the table */
} dl_wanted_gpus;

/* A kind of network between nodes. */
typedef struct dl_wanted_network {
    const char *word, *title, *latency;
    double gbit_per_s; /* rate of a port; 0: the name has it */
    bool rdma;         /* not TCP */
} dl_wanted_network;

/* Nodes of one kind. */
typedef struct dl_wanted_nodes {
    long nodes, gpus;                      /* number of nodes; GPUs of each node */
    dl_wanted_gpus parts[DL_BOX_GPUS_MAX]; /* [part_count] GPUs of a node by model; an instance has
                                            * one part */
    int part_count;
    long ports;                       /* network ports of each of a box's nodes; 0: none */
    double network_gbit_per_s;        /* rate of each port */
    const dl_wanted_network *network; /* NULL: none, or that of an instance or file */
    bool bridges; /* NVLink bridges between GPUs 0 and 1, 2 and 3, ... of each part whose model has
                   * them */
} dl_wanted_nodes;

/* Meaning of a machine's name. */
typedef struct dl_wanted_machine {
    int instance; /* row of the table; -1: boxes or a file */
    char *file;   /* path of the nodes' machine file, freed by the caller; NULL: none */
    dl_wanted_nodes kinds[DL_BOX_KINDS_MAX];
    int kind_count; /* >= 1; 1 for an instance and a file */
    bool counted;   /* the name contains the number of nodes, all of one kind */
} dl_wanted_machine;

/* Parses a machine's name. DL_ERR_NAME, with the nearest name, if it is unknown; DL_ERR_RANGE for
 * its counts. */
dl_status dl_machine_understand(const dl_machine_tables *t, const char *name, dl_wanted_machine *w,
                                dl_error *err) DL_MUST_CHECK;

#endif
