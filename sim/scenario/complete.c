/* Completion of the options that set keys of a scenario. */
#include <string.h>

#include "common/alloc.h"
#include "sim/generate/generators.h"
#include "sim/scenario/command.h"
#include "sim/scenario/keys.h"
#include "sim/scenario/machine_catalogue.h"
#include "sim/scenario/scenario_internal.h"
#include "sim/workloads/architecture.h"

static bool is_key(const dl_key *key, const char *section, const char *name)
{
    return strcmp(key->section, section) == 0 && strcmp(key->name, name) == 0;
}

/* Completes the key's value or, in a list, its last item; the value starts after the first `kept`
 * bytes of `typed`. */
static bool complete_value(FILE *out, const dl_key *key, const char *typed, size_t kept)
{
    static const char *const no_yes[] = {"no", "yes", NULL};
    const char *const *choices =
        key->choices == NULL && key->type == DL_KEY_FLAG ? no_yes : key->choices;
    const char *last =
        key->sweep != 0 ? strrchr(typed + kept, key->sweep == '|' ? '|' : ',') : NULL;
    if (last != NULL) kept = (size_t)(last + 1 - typed);
    if (is_key(key, "machine", "file")) {
        dl_machines_complete(out, typed, kept);
    } else if (is_key(key, "workload", "model")) {
        dl_architectures_complete(out, typed, kept);
    } else if (is_key(key, "machine", "layout")) {
        dl_scenario_layout_complete(out, typed, kept);
    } else if (choices != NULL) {
        for (; *choices != NULL; choices++)
            dl_complete_word(out, typed, kept, *choices);
        if (is_key(key, "sync", "mode")) dl_mode_shorthands_complete(out, typed, kept);
    } else {
        return false;
    }
    return true;
}

/* Completes SECTION.KEY=, or its value if `typed` already contains SECTION.KEY=. */
static void complete_set(FILE *out, const char *typed)
{
    for (size_t i = 0; i < dl_scenario_keys.count; i++) {
        const dl_key *key = &dl_scenario_keys.rows[i];
        DL_AUTOFREE char *name = dl_format("%s.%s=", key->section, key->name);
        const size_t bytes = strlen(name);
        if (strncmp(typed, name, bytes) == 0) {
            complete_value(out, key, typed, bytes);
        } else {
            dl_complete_word(out, typed, 0, name);
        }
    }
}

bool dl_scenario_complete(FILE *out, const char *option, const char *typed)
{
    if (strcmp(option, "set") == 0) {
        complete_set(out, typed);
        return true;
    }
    if (strcmp(option, "rules") == 0) {
        dl_generators_complete(out, typed);
        return true;
    }
    for (size_t i = 0; i < dl_scenario_keys.count; i++) {
        const dl_key *key = &dl_scenario_keys.rows[i];
        const char *own = dl_scenario_option_of(key->section, key->name);
        if (own != NULL && strcmp(own, option) == 0) return complete_value(out, key, typed, 0);
    }
    return false;
}
