#include "common/machine_reader.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/units.h"

dl_status dl_machine_read_name(const dl_machine_reader *r, const char *section, const char *key,
                               const void *parts, int count, size_t size, int *index)
{
    const dl_ini_entry *entry = NULL;
    dl_status status = dl_keys_need(r->ini, section, key, &entry, r->err);
    if (status != DL_OK) return status;
    const char **names = dl_calloc((size_t)count, sizeof *names, "names");
    for (int i = 0; i < count; i++)
        names[i] = *(char *const *)(const void *)((const char *)parts + (size_t)i * size);
    *index = dl_names_find(entry->value, names, (size_t)count);
    if (*index < 0) {
        char hint[256];
        dl_names_hint(hint, sizeof hint, entry->value, names, (size_t)count);
        status = dl_ini_error(r->ini, entry, DL_ERR_NAME, r->err, "unknown name%s", hint);
    }
    free(names);
    return status;
}

dl_status dl_machine_read_class(const dl_machine_reader *r, const char *section, const char *key,
                                int *index)
{
    return dl_machine_read_name(r, section, key, r->machine->classes, r->machine->class_count,
                                sizeof *r->machine->classes, index);
}

dl_status dl_machine_read_parent(const dl_machine_reader *r, const char *section, int *place)
{
    const dl_machine *m = r->machine;
    size_t sockets = (size_t)m->sockets, count = sockets + (size_t)m->switch_count;
    char **names = dl_calloc(count, sizeof *names, "places");
    for (size_t i = 0; i < sockets; i++)
        names[i] = dl_format("socket%zu", i);
    for (size_t i = sockets; i < count; i++)
        names[i] = m->switches[i - sockets].name;
    dl_status status =
        dl_machine_read_name(r, section, "parent", names, (int)count, sizeof *names, place);
    for (size_t i = 0; i < sockets; i++)
        free(names[i]);
    free(names);
    return status;
}

bool dl_machine_parse_range(const char *text, int *first, int *last)
{
    char *copy = dl_strdup(text), *dash = strchr(copy, '-');
    if (dash != NULL) *dash = '\0';
    int64_t low = 0, high = 0;
    bool good =
        dl_parse_int(copy, 0, DL_MACHINE_MAX_PARTS - 1, &low, NULL) == DL_OK &&
        dl_parse_int(dash ? dash + 1 : copy, low, DL_MACHINE_MAX_PARTS - 1, &high, NULL) == DL_OK;
    free(copy);
    *first = (int)low;
    *last = (int)high;
    return good;
}

dl_status dl_machine_each_section(const dl_machine_reader *r, const char *kind,
                                  dl_status (*read)(const dl_machine_reader *,
                                                    const dl_ini_section *, const char *))
{
    size_t length = strlen(kind);
    for (size_t i = 0; i < r->ini->section_count; i++) {
        const dl_ini_section *section = &r->ini->sections[i];
        if (strncmp(section->name, kind, length) != 0 || section->name[length] != ' ') continue;
        bool again = false;
        for (size_t j = 0; j < i && !again; j++)
            again = strcmp(r->ini->sections[j].name, section->name) == 0;
        if (again) continue;
        dl_status status = read(r, section, section->name + length + 1);
        if (status != DL_OK) return status;
    }
    return DL_OK;
}

dl_status dl_machine_fail(const dl_machine_reader *r, const dl_ini_section *section,
                          const char *text)
{
    return dl_error_set_at(r->err, DL_ERR_RANGE, r->ini->path, section->line, "[%s]: %s",
                           section->name, text);
}
