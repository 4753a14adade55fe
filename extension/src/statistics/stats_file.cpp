#include "statistics/stats_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

namespace idem::stats {

namespace {

constexpr const char *kFile = PGSTAT_STAT_PERMANENT_DIRECTORY "/idem.stat";
constexpr const char *kTemporary = PGSTAT_STAT_PERMANENT_DIRECTORY "/idem.stat.tmp";

// Integers are in the machine's byte order: the file stays in the data directory, and a file with another byte order fails this
// check. The number changes with the format.
constexpr uint32 kMagic = 0x69646d01;

// Header, items, and the CRC-32C of both.
struct Header {
    uint32 magic;
    uint32 item_size;
    uint64 items;
};
static_assert(sizeof(Header) == 16);

bool write_all(FILE *file, pg_crc32c *crc, const void *data, Size size) {
    COMP_CRC32C(*crc, data, size);
    return size == 0 || fwrite(data, size, 1, file) == 1;
}

bool write_counts(FILE *file, const ScopeCountsList &list) {
    const Header header{kMagic, sizeof(ScopeCounts), static_cast<uint64>(list.count)};
    pg_crc32c crc;
    INIT_CRC32C(crc);
    if (!write_all(file, &crc, &header, sizeof header) || !write_all(file, &crc, list.items, sizeof(ScopeCounts) * list.count))
        return false;
    FIN_CRC32C(crc);
    return fwrite(&crc, sizeof crc, 1, file) == 1;
}

void log_failure(const char *action, const char *path) {
    ereport(LOG, (errcode_for_file_access(), errmsg("could not %s file \"%s\": %m", action, path)));
}

// Returns the content of the file, or nullptr.
char *read_file(FILE *file, Size *size) {
    struct stat status;
    if (fstat(fileno(file), &status) != 0 || status.st_size < 0 || !AllocHugeSizeIsValid(static_cast<Size>(status.st_size)))
        return nullptr;
    *size = static_cast<Size>(status.st_size);
    auto *content = static_cast<char *>(
        MemoryContextAllocExtended(CurrentMemoryContext, Max(*size, 1), MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM));
    return content != nullptr && (*size == 0 || fread(content, *size, 1, file) == 1) ? content : nullptr;
}

bool is_intact(const char *content, Size size, Header *header) {
    pg_crc32c stored;
    if (size < sizeof(Header) + sizeof stored)
        return false;
    memcpy(header, content, sizeof *header);
    const Size body = size - sizeof(Header) - sizeof stored;
    if (header->magic != kMagic || header->item_size != sizeof(ScopeCounts) || body % sizeof(ScopeCounts) != 0 ||
        header->items != body / sizeof(ScopeCounts))
        return false;
    memcpy(&stored, content + size - sizeof stored, sizeof stored);
    pg_crc32c crc;
    INIT_CRC32C(crc);
    COMP_CRC32C(crc, content, size - sizeof stored);
    FIN_CRC32C(crc);
    return EQ_CRC32C(crc, stored);
}

// After a crash, counting had gone on since the file was written, and those counts are lost.
bool was_shut_down() {
    bool intact;
    const ControlFileData *control = get_controlfile(DataDir, &intact);
    return intact && (control->state == DB_SHUTDOWNED || control->state == DB_SHUTDOWNED_IN_RECOVERY);
}

void read_counts(FILE *file, void (*restore)(const ScopeCounts &counted)) {
    Size size;
    Header header;
    const char *content = read_file(file, &size);
    if (content == nullptr || !is_intact(content, size, &header)) {
        ereport(LOG, (errcode(ERRCODE_DATA_CORRUPTED), errmsg("ignoring file \"%s\" with statistics of idem", kFile),
                      errdetail("It is damaged, or of another version.")));
        return;
    }
    if (!was_shut_down())
        return;
    for (uint64 i = 0; i < header.items; i++) {
        ScopeCounts counted;
        memcpy(&counted, content + sizeof header + i * sizeof counted, sizeof counted);
        restore(counted);
    }
}

} // namespace

void save(ScopeCountsList (*read_counts)()) {
    if (!was_shut_down()) // a killed process may also have left the lock locked
        return;
    FILE *file = AllocateFile(kTemporary, PG_BINARY_W);
    if (file == nullptr)
        return log_failure("create", kTemporary);
    const bool written = write_counts(file, read_counts());
    if (!written)
        log_failure("write", kTemporary);
    if (FreeFile(file) != 0 || !written || durable_rename(kTemporary, kFile, LOG) != 0)
        (void)unlink(kTemporary);
}

void load(void (*restore)(const ScopeCounts &counted)) {
    FILE *file = AllocateFile(kFile, PG_BINARY_R);
    if (file == nullptr) {
        if (errno != ENOENT)
            log_failure("open", kFile);
        return;
    }
    // The file has a memory context of its own, because the current one lasts as long as the server.
    const MemoryContext memory = AllocSetContextCreate(CurrentMemoryContext, "idem statistics file", ALLOCSET_DEFAULT_SIZES);
    const MemoryContext outer = MemoryContextSwitchTo(memory);
    read_counts(file, restore);
    MemoryContextSwitchTo(outer);
    MemoryContextDelete(memory);
    FreeFile(file);
    if (unlink(kFile) != 0)
        log_failure("remove", kFile);
}

} // namespace idem::stats
