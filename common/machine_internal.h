/* What the reader of machine files (machine.c) shares with that of their networks
 * (machine_fabric.c). */
#ifndef DL_COMMON_MACHINE_INTERNAL_H
#define DL_COMMON_MACHINE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "common/ini.h"
#include "common/keys.h"
#include "common/machine.h"

#define DL_MACHINE_MAX_NODES 10000000

/* What keeps a key: its offset is in this struct. */
enum {
    OF_MACHINE,
    OF_HOST,
    OF_MODEL,
    OF_CLASS,
    OF_PROTOCOL,
    OF_NVLINKS,
    OF_SITE,
    OF_SITE_PAIR,
    OF_NET_SWITCH,
    OF_TRAFFIC,
    OF_NOBODY
};

/* What the reader carries from function to function. */
typedef struct dl_machine_reader {
    dl_machine *machine;
    const dl_ini *ini;
    dl_error *err;
} dl_machine_reader;

/* The index of the key's value among the names of `count` structs of `size` bytes that start with a
 * char *name. */
dl_status dl_machine_read_name(const dl_machine_reader *r, const char *section, const char *key,
                               const void *parts, int count, size_t size, int *index);

/* Reads "3" or "0-7", numbers below `count`; false if the text is neither. */
bool dl_machine_parse_range(const char *text, int count, int *first, int *last);

/* [fabric] but for the keys that are plain numbers and names, which are read already. */
dl_status dl_machine_read_fabric(const dl_machine_reader *r);

/* A section [netswitch NAME]: all are named before one is read, as its parent may stand below. */
dl_status dl_machine_name_net_switch(const dl_machine_reader *r, const dl_ini_section *section,
                                     const char *name);
dl_status dl_machine_read_net_switch(const dl_machine_reader *r, const dl_ini_section *section,
                                     const char *name);

/* A section [traffic NAME]. */
dl_status dl_machine_read_traffic(const dl_machine_reader *r, const dl_ini_section *section,
                                  const char *name);

/* That they form one tree, and the rates of its uplinks: after the NICs, on whose number these
 * depend. */
dl_status dl_machine_check_net_switches(const dl_machine_reader *r);

#endif
