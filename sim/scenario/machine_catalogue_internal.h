/* Parts of the catalogue of machines: tables, files and parsing of names (machine_names.c), and the
 * text of the machine file (machine_text.c). */
#ifndef DL_SIM_MACHINE_CATALOGUE_INTERNAL_H
#define DL_SIM_MACHINE_CATALOGUE_INTERNAL_H

#include "common/csv.h"
#include "sim/scenario/machine_catalogue.h"

#define DL_BOX_GPUS_MAX 16
#define DL_RACK_GPUS_MAX 72 /* of an instance */
#define DL_BOX_KINDS_MAX 16 /* of nodes */

typedef struct dl_machine_tables {
    dl_csv gpus, instances;
} dl_machine_tables;

/* Reads the tables, in which every row makes a machine. */
dl_status dl_machine_tables_read(dl_machine_tables *t, dl_error *err) DL_MUST_CHECK;
void dl_machine_tables_free(dl_machine_tables *t);

/* Row of the table with this name, or -1. */
int dl_machine_row(const dl_csv *csv, const char *name);

const char *dl_machine_cell(const dl_csv *csv, size_t row, const char *column);

/* A rate of the table; 0: an empty cell. */
double dl_machine_rate(const dl_csv *csv, size_t row, const char *column);

/* The bus of GPUs: the text of its link, and related values. */
typedef struct dl_machine_bus {
    const char *name, *links;
    const char *socket_link, *memory_rate; /* of contemporary processors */
    double wire_bytes_per_s;
} dl_machine_bus;

/* Oldest first. */
#define DL_MACHINE_BUSES 5
extern const dl_machine_bus dl_machine_buses[DL_MACHINE_BUSES];

/* NULL: unknown name. */
const dl_machine_bus *dl_machine_find_bus(const char *name);

/* Names of the machine files without ".ini", sorted, freed by the caller. */
size_t dl_machine_files(char ***names);

/* GPUs of one model. */
typedef struct dl_wanted_gpus {
    long count;
    int gpu; /* row */
} dl_wanted_gpus;

/* Equal nodes. */
typedef struct dl_wanted_nodes {
    long nodes, gpus;                      /* of a node */
    dl_wanted_gpus parts[DL_BOX_GPUS_MAX]; /* [part_count] of a node, one of an instance */
    int part_count;
    long ports;                /* of a box's node to the network; 0: none */
    double network_gbit_per_s; /* of each */
    bool infiniband;
    bool bridges; /* NVLink between each two of a part's GPUs */
} dl_wanted_nodes;

/* Meaning of a machine's name. */
typedef struct dl_wanted_machine {
    int instance; /* row; -1: boxes, or a file */
    char *file;   /* path of the machine file of these nodes; NULL: none. Freed by caller */
    dl_wanted_nodes kinds[DL_BOX_KINDS_MAX];
    int kind_count; /* >= 1, of an instance and a file 1 */
    bool counted;   /* the name has the number of nodes, all of one kind */
} dl_wanted_machine;

/* Finds the meaning of a name. DL_ERR_NAME for an unknown one, with the nearest; DL_ERR_RANGE for
 * counts. */
dl_status dl_machine_understand(const dl_machine_tables *t, const char *name, dl_wanted_machine *w,
                                dl_error *err) DL_MUST_CHECK;

#endif
