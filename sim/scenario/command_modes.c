/* Effects of --mode on the other keys of a scenario. */
#include "sim/scenario/command.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/ini.h"
#include "common/names.h"
#include "sim/scenario/keys.h"
#include "sim/scenario/scenario_internal.h"
#include "sim/scenario/study.h"

/* Removes the keys set by words for modes in the list, as --mode replaces those of the file. */
static void remove_keys_of_modes(char **text, const char *list)
{
    for (char *word; (word = dl_next_word(&list)) != NULL; free(word)) {
        const dl_mode_shorthand *both = dl_mode_shorthand_find(word);
        if (both != NULL) dl_ini_text_remove(text, both->section, both->key);
    }
}

/* Returns the index of a mode, by any of its names, in dl_modes; -1: none. */
static int mode_of(const char *given)
{
    const dl_word *word = dl_mode_word(given);
    const dl_mode_shorthand *both = dl_mode_shorthand_find(given);
    const char *name = both != NULL                         ? both->mode
                       : word != NULL && word->here != NULL ? word->here
                                                            : given;
    return dl_names_find(name, dl_mode_names, DL_MODES);
}

/* Options of [sync], as bits, that the modes of a list take; all of them if a word is not a
 * mode. */
static unsigned options_of_modes(const char *list)
{
    unsigned options = 0;
    for (char *given; (given = dl_next_word(&list)) != NULL; free(given)) {
        const int mode = mode_of(given);
        options |= mode >= 0 ? dl_modes[mode]->options : ~0u;
    }
    return options;
}

/* Removes the options that the text's own modes take but no mode of the list does: --mode replaces
 * the text's modes, and such options would apply to them alone. */
static void remove_keys_of_other_modes(char **text, const char *list)
{
    DL_AUTOFREE char *own = dl_ini_text_value(*text, "sync", "mode");
    const unsigned idle = options_of_modes(own) & ~options_of_modes(list);
    for (int o = 0; o < DL_SYNC_OPTIONS; o++)
        if (idle & 1u << o) dl_ini_text_remove(text, "sync", dl_option_key(o)->name);
}

void dl_scenario_leave_modes(char **text, const char *list)
{
    remove_keys_of_other_modes(text, list);
    remove_keys_of_modes(text, list);
}

/* Whether a mode of the list, or a word that is not a mode, can have the key of [exchange]. */
static bool modes_take(const dl_scenario *scenario, const dl_key *key, const char *list)
{
    bool take = false;
    for (char *given; !take && (given = dl_next_word(&list)) != NULL; free(given)) {
        const int mode = mode_of(given);
        take = mode < 0 || dl_scenario_takes(scenario, key, mode);
    }
    return take;
}

void dl_scenario_leave_exchange(char **text, const char *path, const char *list)
{
    DL_SCOPED(dl_study) study = {0};
    if (dl_study_read_text(&study, path, *text, strlen(*text), NULL) == DL_OK) {
        const dl_scenario *scenario = &study.variants[0].scenario;
        for (size_t k = 0; k < dl_scenario_keys.count && scenario->gpu != NULL; k++) {
            const dl_key *key = &dl_scenario_keys.rows[k];
            if (strcmp(key->section, "exchange") == 0 && !modes_take(scenario, key, list))
                dl_ini_text_remove(text, key->section, key->name);
        }
    }
}

dl_status dl_scenario_plain_mode(char **text, dl_error *err)
{
    DL_AUTOFREE char *list = dl_ini_text_value(*text, "sync", "mode");
    const dl_mode_shorthand *both = list != NULL ? dl_mode_shorthand_find(list) : NULL;
    dl_status status = DL_OK;
    if (both != NULL && dl_ini_text_line(*text, both->section, both->key) == NULL) {
        dl_ini_text_set(text, "sync", "mode", both->mode);
        dl_ini_text_set(text, both->section, both->key, both->value);
    }
    const char *at = both == NULL ? list : NULL;
    for (char *word; status == DL_OK && (word = dl_next_word(&at)) != NULL; free(word)) {
        const dl_mode_shorthand *one = dl_mode_shorthand_find(word);
        if (one != NULL)
            status = dl_error_set(err, DL_ERR_USAGE,
                                  "--advise: %s in a list of modes: write %s, and --set %s.%s=%s",
                                  word, one->mode, one->section, one->key, one->value);
    }
    return status;
}
