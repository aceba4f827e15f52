/* Improves errors of scenarios that involve the command line: names the option instead of the key
 * and, for a file that is not a scenario, its kind. */
#include <stdio.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "sim/scenario/command.h"
#include "sim/scenario/machine_catalogue.h"
#include "sim/workloads/architecture.h"

/* Changes "[machine] workers = 0: ..." to "--workers 0: ...". */
static void name_option(dl_error *err)
{
    char section[64], key[64];
    int value = 0;
    const char *end = NULL;
    if (sscanf(err->text, "[%63[^]]] %63[^ =] = %n", section, key, &value) == 2 && value > 0) {
        end = strstr(err->text + value, ": ");
    }
    if (end == NULL) return;
    const char *option = dl_scenario_option_of(section, key);
    DL_AUTOFREE char *text = option != NULL
                                 ? dl_format("--%s %s", option, err->text + value)
                                 : dl_format("--set %s.%s=%s", section, key, err->text + value);
    snprintf(err->text, sizeof err->text, "%s", text);
}

/* Returns the kind of a file wrongly given as an INI file, from its first bytes; NULL: it may be an
 * INI file. */
static const char *kind_of(const char *path)
{
    static const struct {
        const char *start, *kind;
    } kinds[] = {
        {"\x1f\x8b", "it is a packed trace: dlcal costs makes a cost file from it, for --costs"},
        {"{", "it is JSON, as traces are: dlcal costs makes a cost file from one, for --costs"},
        {"SQLite format 3", "it is an SQLite file, as traces of Nsight Systems are: dlcal costs "
                            "makes a cost file from one, for --costs"},
        {"DLTRACE\n", "it is a trace of dlprof: dlcal fit (for dlprof run: dlcal costs) makes a "
                      "cost file from it, for --costs"},
    };
    char start[32] = "";
    FILE *in = fopen(path, "rb");
    if (in == NULL) return NULL;
    const size_t bytes = fread(start, 1, sizeof start - 1, in);
    const bool empty = bytes == 0 && feof(in);
    fclose(in);
    if (empty) return "the file is empty";
    const char *text = start + strspn(start, " \t\r\n");
    if (*text == '[') { /* a list of events, as written by PyTorch 1.8 */
        const char *first = text + 1 + strspn(text + 1, " \t\r\n");
        if (*first == '{') text = first;
    }
    const size_t left = bytes - (size_t)(text - start);
    for (size_t i = 0; i < DL_LENGTH(kinds); i++) {
        const size_t length = strlen(kinds[i].start);
        if (left >= length && memcmp(text, kinds[i].start, length) == 0) return kinds[i].kind;
    }
    return NULL;
}

/* Whether the first line that is not a comment has commas and no '='. */
static bool is_table(const char *path)
{
    char line[4096] = "";
    FILE *in = fopen(path, "rb");
    while (in != NULL && fgets(line, sizeof line, in) != NULL && strchr("#\r\n", line[0]) != NULL)
        continue;
    if (in != NULL) fclose(in);
    return line[0] != '#' && strchr(line, ',') != NULL && strchr(line, '=') == NULL;
}

/* Returns the kind of a path wrongly given as a scenario, from its name; NULL: it may be a
 * scenario. */
static const char *kind_by_name(const char *path, dl_status code)
{
    dl_architecture network = {0};
    dl_error ignored = {0};
    if (dl_ends_with(path, ".py")) {
        return "it is not a scenario but a program, which dlprof run python3 records; dlcal "
               "costs makes a cost file from that, for --costs";
    }
    if (code != DL_ERR_IO) return NULL;
    if (path[strspn(path, "0123456789,")] == '\0')
        return "there is no such scenario; a list has commas and no spaces, as --workers 1,2,4";
    if (dl_architecture_make(&network, path, &ignored) == DL_OK) {
        dl_architecture_free(&network);
        return "there is no such scenario, but a network of this name: give it with --workload";
    }
    return dl_machine_is_known(path) ? "there is no such scenario, but a machine of this name: "
                                       "give it with --machine, and what it trains with "
                                       "--workload or --costs"
                                     : NULL;
}

/* Whether the unknown section is one that begins a cost file. */
static bool is_cost_file(const dl_error *err)
{
    return strncmp(err->text, "unknown section [costs]", strlen("unknown section [costs]")) == 0 ||
           strncmp(err->text, "unknown section [op ", strlen("unknown section [op ")) == 0;
}

static bool gives_key(const dl_scenario_command *command, const char *section, const char *key)
{
    const char *option = dl_scenario_option_of(section, key);
    if (option != NULL && dl_scenario_command_value(command, option) != NULL) return true;
    for (size_t i = 0; i < command->set.count; i++) {
        const char *set = command->set.items[i], *dot = memchr(set, '.', strcspn(set, "="));
        const char *name = dot != NULL ? dot + 1 : set;
        const size_t bytes = strcspn(name, "=");
        if (strlen(key) != bytes || strncmp(name, key, bytes) != 0) continue;
        if (dot == NULL)
            return true; /* --set KEY=VALUE without a section: only one section has the
                                       * key */
        if (strlen(section) == (size_t)(dot - set) && strncmp(set, section, strlen(section)) == 0)
            return true;
    }
    return false;
}

/* Whether the error is of a value or key that the command line gives, not the file. */
static bool is_of_command(const dl_scenario_command *command, const dl_error *err)
{
    char section[64], key[64];
    return (sscanf(err->text, "[%63[^]]] %63[^ =] =", section, key) == 2 ||
            sscanf(err->text, "unknown key '%63[^']' in [%63[^]]]", key, section) == 2) &&
           gives_key(command, section, key);
}

dl_status dl_scenario_command_error(const dl_scenario_command *command, const char *path,
                                    dl_error *err)
{
    const bool of_scenario = strcmp(err->file, path != NULL ? path : DL_SCENARIO_FROM_COMMAND) == 0;
    if (of_scenario && (path == NULL || is_of_command(command, err))) {
        err->file[0] = '\0';
        err->line = 0;
        if (err->code == DL_ERR_NAME || err->code == DL_ERR_RANGE || err->code == DL_ERR_PARSE ||
            err->code == DL_ERR_DATA) {
            err->code = DL_ERR_USAGE;
        }
        name_option(err);
        return err->code;
    }
    const bool unread = err->code == DL_ERR_PARSE || err->code == DL_ERR_DATA;
    const char *kind = unread && err->file[0] != '\0' ? kind_of(err->file) : NULL;
    if (kind == NULL && err->code == DL_ERR_PARSE &&
        strcmp(err->text, "expected key = value") == 0 && is_table(err->file)) {
        kind = "it looks like a CSV table, as results are: an INI file is expected";
    }
    if (kind == NULL && path != NULL && strcmp(err->file, path) == 0 && err->code == DL_ERR_NAME &&
        is_cost_file(err)) {
        kind = "it is a cost file, not a scenario: give it with --costs";
    }
    if (kind == NULL && path != NULL && strcmp(err->file, path) == 0)
        kind = kind_by_name(path, err->code);
    if (kind != NULL) {
        err->line = 0;
        snprintf(err->text, sizeof err->text, "%s", kind);
    }
    return err->code;
}
