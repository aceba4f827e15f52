#include "common/bytes.h"

#include <string.h>

#include "common/alloc.h"

void dl_bytes_add(dl_bytes *bytes, const void *data, size_t count)
{
    if (count == 0) return;
    if (bytes->room - bytes->count < count) {
        bytes->room = 2 * bytes->room + count;
        bytes->data = dl_realloc(bytes->data, bytes->room, 1, "bytes");
    }
    memcpy(bytes->data + bytes->count, data, count);
    bytes->count += count;
}

bool dl_bytes_take(dl_bytes_left *left, void *data, size_t count)
{
    if (left->count < count) return false;
    if (data != NULL && count > 0) memcpy(data, left->at, count);
    left->at += count;
    left->count -= count;
    return true;
}

uint64_t dl_hash_bytes(uint64_t hash, const void *data, size_t count)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ at[i]) * 0x100000001b3u;
    return hash;
}

uint64_t dl_hash_add_text(uint64_t hash, const char *text)
{
    return text != NULL ? dl_hash_bytes(hash, text, strlen(text) + 1) : dl_hash_bytes(hash, "", 1);
}
