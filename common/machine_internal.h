/* Shared by the readers of machine files (machine.c), of their nodes (machine_nodes.c) and of their
 * networks (machine_fabric.c). */
#ifndef DL_COMMON_MACHINE_INTERNAL_H
#define DL_COMMON_MACHINE_INTERNAL_H

#include <stddef.h>

#include "common/ini.h"
#include "common/keys.h"
#include "common/machine.h"

#define DL_MACHINE_MAX_NODES 10000000

/* Struct that stores a key's value: dl_key.owner of the rows of dl_machine_keys. */
enum {
    OF_MACHINE,
    OF_KIND,
    OF_NETWORK,
    OF_MODEL,
    OF_KERNELS,
    OF_CLASS,
    OF_PROTOCOL,
    OF_NVLINKS,
    OF_SITE,
    OF_SITE_PAIR,
    OF_NET_SWITCH,
    OF_TRAFFIC,
    OF_NOBODY
};

/* State of the reader. */
typedef struct dl_machine_reader {
    dl_machine *machine;
    dl_node_kind *node;  /* node kind being read */
    const dl_ini *ini;   /* sections common to all nodes, or dl_machine_view of `node` */
    const dl_ini *whole; /* complete file; NULL while reading a node */
    dl_error *err;
    struct dl_node_ranges *ranges; /* node ranges that the [nodes ..] sections read so far assign to
                                    * kinds */
} dl_machine_reader;

/* Finds the index of the key's value among the names of `count` structs of `size` bytes that start
 * with a char *name. */
dl_status dl_machine_read_name(const dl_machine_reader *r, const char *section, const char *key,
                               const void *parts, int count, size_t size, int *index);

/* Sets an error about a section; returns DL_ERR_RANGE. */
dl_status dl_machine_fail(const dl_machine_reader *r, const dl_ini_section *section,
                          const char *text);

/* Calls read(r, section, name) for each distinct section "KIND NAME". */
dl_status dl_machine_each_section(const dl_machine_reader *r, const char *kind,
                                  dl_status (*read)(const dl_machine_reader *,
                                                    const dl_ini_section *, const char *));

/* Returns the sections that apply to nodes of a kind as a separate file: first each [SECTION of
 * KIND], so that [gpus 0-3 of t4] becomes [gpus 0-3], then the common sections that these do not
 * replace (see `sorts`). kind = NULL: all sections without a kind. The view borrows keys and
 * values; dl_machine_free_view releases the rest. */
dl_ini dl_machine_view(const dl_ini *ini, const char *kind);
void dl_machine_free_view(dl_ini *view);

/* Reads the kinds of nodes, and [nodes ..]. */
dl_status dl_machine_read_kinds(const dl_machine_reader *r);

/* Reads the keys of [fabric] other than plain numbers and names, which were read before. */
dl_status dl_machine_read_fabric(const dl_machine_reader *r);

/* Read sections [netswitch NAME]: all are named before any is read, as a parent may follow
 * later. */
dl_status dl_machine_name_net_switch(const dl_machine_reader *r, const dl_ini_section *section,
                                     const char *name);
dl_status dl_machine_read_net_switch(const dl_machine_reader *r, const dl_ini_section *section,
                                     const char *name);

/* Reads a section [traffic NAME]. */
dl_status dl_machine_read_traffic(const dl_machine_reader *r, const dl_ini_section *section,
                                  const char *name);

/* Checks that the [netswitch]es form one tree, and computes the rates of uplinks. Call it after
 * reading the NICs, on which the rates depend. */
dl_status dl_machine_check_net_switches(const dl_machine_reader *r);

#endif
