#include "tests/doubles/nvtx_capture.h"

#include "tests/check.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "profiler/inject/capture.h"

#define TEXTS_MAX 4096
#define METAS_MAX 64
#define ACTIVITIES_MAX 262144

static atomic_bool is_active = true;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static dl_activity activities[ACTIVITIES_MAX];
static char *texts[TEXTS_MAX];
static struct {
    char key[64], value[256];
} metas[METAS_MAX];
static size_t activity_count, text_count = 1, meta_count;

bool dl_capture_active(void)
{
    return atomic_load(&is_active);
}

void dl_capture_append(const dl_activity *activity)
{
    if (!dl_activity_valid(activity)) abort();
    pthread_mutex_lock(&lock);
    if (activity_count == ACTIVITIES_MAX) abort();
    activities[activity_count++] = *activity;
    pthread_mutex_unlock(&lock);
}

uint32_t dl_capture_intern(const char *text)
{
    if (text == NULL || text[0] == '\0' || !is_active) return 0;
    pthread_mutex_lock(&lock);
    size_t id = 1;
    while (id < text_count && strcmp(texts[id], text) != 0)
        id++;
    if (id == TEXTS_MAX) abort();
    if (id == text_count) texts[text_count++] = strdup(text);
    pthread_mutex_unlock(&lock);
    return (uint32_t)id;
}

void dl_capture_meta(const char *key, const char *value)
{
    pthread_mutex_lock(&lock);
    if (meta_count == METAS_MAX) abort();
    snprintf(metas[meta_count].key, sizeof metas[0].key, "%s", key);
    snprintf(metas[meta_count++].value, sizeof metas[0].value, "%s", value);
    pthread_mutex_unlock(&lock);
}

int64_t dl_capture_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

uint32_t dl_capture_thread(void)
{
    return (uint32_t)syscall(SYS_gettid);
}

static void (*end_function)(void);

void dl_capture_at_end(void (*function)(void))
{
    if (end_function != NULL) abort();
    end_function = function;
}

void seen_end(void)
{
    seen_set_active(false); /* as in the capture: only end_function's activities follow */
    assert_non_null(end_function);
    end_function();
}

void seen_set_active(bool active)
{
    atomic_store(&is_active, active);
}

void seen_clear(void)
{
    activity_count = meta_count = 0;
}

size_t seen_count(void)
{
    return activity_count;
}

dl_activity seen_at(size_t i)
{
    assert_true(i < activity_count);
    return activities[i];
}

const char *seen_text(uint32_t id)
{
    if (id == 0) return "";
    assert_true(id < text_count);
    return texts[id];
}

const char *seen_meta(const char *key)
{
    for (size_t i = meta_count; i-- > 0;)
        if (strcmp(metas[i].key, key) == 0) return metas[i].value;
    return NULL;
}

dl_activity seen_find(dl_activity_kind kind, const char *name)
{
    for (size_t i = 0; i < activity_count; i++)
        if (activities[i].kind == kind && strcmp(seen_text(activities[i].name), name) == 0)
            return activities[i];
    fail_msg("no %s '%s' among %zu activities", dl_activity_kind_name(kind), name, activity_count);
    return (dl_activity){0};
}

size_t seen_count_kind(dl_activity_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < activity_count; i++)
        count += activities[i].kind == kind;
    return count;
}
