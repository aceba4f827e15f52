#include "profiler/inject/step_limit.h"

#include <ctype.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "trace/activity/step_marks.h"

/* Texts of more kinds than any program marks its steps with are not counted. */
#define GROUPS_MAX 64

typedef struct group {
    char *text; /* without numbers */
    int64_t steps;
} group;

static int64_t limit;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static group groups[GROUPS_MAX];
static size_t group_count;
static uint8_t *group_of; /* [id_count] by text's id: 1 + its group, 0 = names no step */
static size_t id_count;

void dl_step_limit_begin(int64_t steps)
{
    limit = steps;
}

/* `text` without its digits. free(). */
static char *without_numbers(const char *text)
{
    char *made = dl_strdup(text);
    char *to = made;
    for (; *text != '\0'; text++)
        if (!isdigit((unsigned char)*text)) *to++ = *text;
    *to = '\0';
    return made;
}

/* 1 + the text's group, which may be new; 0 = too many. */
static uint8_t find_group(const char *text)
{
    char *key = without_numbers(text);
    size_t i = 0;
    while (i < group_count && strcmp(groups[i].text, key) != 0)
        i++;
    if (i < group_count || i == GROUPS_MAX) {
        free(key);
        return i == GROUPS_MAX ? 0 : (uint8_t)(i + 1);
    }
    groups[group_count++] = (group){.text = key};
    return (uint8_t)group_count;
}

static void grow(uint32_t id)
{
    size_t count = id_count > 0 ? id_count : 1024;
    while (count <= id)
        count *= 2;
    group_of = dl_realloc(group_of, count, 1, "texts of steps");
    memset(group_of + id_count, 0, count - id_count);
    id_count = count;
}

void dl_step_limit_name(uint32_t id, const char *text)
{
    if (limit == 0 || !dl_text_names_step(text)) return;
    pthread_mutex_lock(&lock);
    if (id >= id_count) grow(id);
    if (group_of[id] == 0) group_of[id] = find_group(text);
    pthread_mutex_unlock(&lock);
}

bool dl_step_limit_reached(const dl_activity *activity)
{
    if (limit == 0) return false;
    if (activity->kind != DL_ACTIVITY_RANGE && activity->kind != DL_ACTIVITY_MARK) return false;
    bool reached = false;
    pthread_mutex_lock(&lock);
    const unsigned found = activity->name < id_count ? group_of[activity->name] : 0;
    if (found > 0) reached = ++groups[found - 1].steps >= limit;
    pthread_mutex_unlock(&lock);
    return reached;
}
