/* Keys and names of a machine file's sections: what machine_read.c is made of. Not for others. */
#ifndef DL_COMMON_MACHINE_READER_H
#define DL_COMMON_MACHINE_READER_H

#include <stddef.h>

#include "common/keys.h"
#include "common/machine.h"

/* What the reader carries from function to function. */
typedef struct dl_machine_reader {
    dl_machine *machine;
    const dl_ini *ini;
    dl_error *err;
} dl_machine_reader;

/* The index of the key's value among the names of `count` structs of `size` bytes that begin with a
 * char *name. */
dl_status dl_machine_read_name(const dl_machine_reader *r, const char *section, const char *key,
                               const void *parts, int count, size_t size, int *index) DL_MUST_CHECK;

/* The same among the link classes. */
dl_status dl_machine_read_class(const dl_machine_reader *r, const char *section, const char *key,
                                int *index) DL_MUST_CHECK;

/* The key "parent": socketN or the name of a switch. */
dl_status dl_machine_read_parent(const dl_machine_reader *r, const char *section,
                                 int *place) DL_MUST_CHECK;

/* Reads "3" or "0-7"; false if the text is neither. */
bool dl_machine_parse_range(const char *text, int *first, int *last);

/* Calls read(r, section, name) for each section "KIND NAME", once where it comes again. */
dl_status dl_machine_each_section(const dl_machine_reader *r, const char *kind,
                                  dl_status (*read)(const dl_machine_reader *,
                                                    const dl_ini_section *,
                                                    const char *)) DL_MUST_CHECK;

/* Whether all parts that were read are connected. DL_ERR_RANGE, DL_ERR_DATA. */
dl_status dl_machine_check_whole(const dl_machine_reader *r) DL_MUST_CHECK;

/* DL_ERR_RANGE about a section. */
dl_status dl_machine_fail(const dl_machine_reader *r, const dl_ini_section *section,
                          const char *text);

#endif
