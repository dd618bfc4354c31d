// End record:   PK\5\6 disk[2] disk[2] entries[2] entries[2] directory_size[4] directory_offset[4]
// comment[2+n] zip64 locator PK\6\7 disk[4] end64_offset[8] disks[4], just before it; zip64 end PK\6\6
// size[8] made[2]
//   needed[2] disk[4] disk[4] entries[8] entries[8] directory_size[8] directory_offset[8]
// Entry:        PK\1\2 made[2] needed[2] flags[2] method[2] time[4] crc[4] packed[4] size[4] name[2] extra[2]
//   comment[2] disk[2] attributes[2+4] header_offset[4], then name, extra, comment
// Local header: PK\3\4 needed[2] flags[2] method[2] time[4] crc[4] packed[4] size[4] name[2] extra[2], then
//   name, extra, data
#include "io/zip.h"

#include <fmt/format.h>

#include <optional>

#include "base/error.h"
#include "io/byte_reader.h"

namespace openwork {
namespace {

constexpr uint32_t kEndRecord = 0x06054b50, kEnd64Locator = 0x07064b50, kEnd64Record = 0x06064b50;
constexpr uint32_t kEntry = 0x02014b50, kLocalHeader = 0x04034b50;
constexpr size_t kEndRecordBytes = 22, kLocatorBytes = 20, kLongestComment = 65535;
constexpr uint32_t kIn64 = 0xffffffff;  // the real number stands in the zip64 record
constexpr uint16_t kZip64Extra = 1, kEncrypted = 1;

[[noreturn]] void refuse(std::string_view what, std::string_view origin) {
  fail_input(fmt::format("damaged zip file: {}", what), origin, kDamagedAdvice);
}

struct Directory {
  uint64_t entries = 0, size = 0, offset = 0;
};

// Searches backwards, as a comment may follow the record.
size_t find_end_record(std::span<const std::byte> file, std::string_view origin) {
  if (file.size() >= kEndRecordBytes) {
    const size_t last = file.size() - kEndRecordBytes;
    for (size_t back = 0; back <= std::min(last, kLongestComment); ++back) {
      if (load_number<uint32_t>(file.data() + last - back) == kEndRecord) return last - back;
    }
  }
  refuse("no directory at its end", origin);
}

std::optional<Directory> read_end64(std::span<const std::byte> file, size_t end_record,
                                    std::string_view origin) {
  if (end_record < kLocatorBytes) return std::nullopt;
  ByteReader locator(file, origin, end_record - kLocatorBytes);
  if (locator.read<uint32_t>("the zip64 locator") != kEnd64Locator) return std::nullopt;
  locator.take(4, "the zip64 locator");
  const auto offset = locator.read<uint64_t>("the zip64 locator");
  if (offset > file.size()) refuse("its zip64 record lies outside it", origin);
  ByteReader record(file, origin, offset);
  if (record.read<uint32_t>("the zip64 record") != kEnd64Record) refuse("no zip64 record", origin);
  record.take(8 + 2 + 2 + 4 + 4 + 8, "the zip64 record");
  Directory directory;
  directory.entries = record.read<uint64_t>("the zip64 record");
  directory.size = record.read<uint64_t>("the zip64 record");
  directory.offset = record.read<uint64_t>("the zip64 record");
  return directory;
}

Directory read_directory(std::span<const std::byte> file, std::string_view origin) {
  const size_t end_record = find_end_record(file, origin);
  if (const auto directory = read_end64(file, end_record, origin)) return *directory;
  ByteReader reader(file, origin, end_record + 4);
  const auto disk = reader.read<uint16_t>("the zip record"),
             first_disk = reader.read<uint16_t>("the zip record");
  if (disk != 0 || first_disk != 0) refuse("it spans several disks", origin);
  reader.take(2, "the zip record");
  Directory directory;
  directory.entries = reader.read<uint16_t>("the zip record");
  directory.size = reader.read<uint32_t>("the zip record");
  directory.offset = reader.read<uint32_t>("the zip record");
  return directory;
}

struct Entry {
  std::string name;
  uint16_t flags = 0, method = 0;
  uint64_t packed = 0, size = 0, header_offset = 0;
};

// Replaces the numbers that did not fit 32 bits; they stand in the extra field, in this order.
void read_zip64_extra(Entry& entry, std::span<const std::byte> extra, std::string_view origin) {
  ByteReader reader(extra, origin);
  while (reader.remaining() >= 4) {
    const auto id = reader.read<uint16_t>("a zip extra field"),
               size = reader.read<uint16_t>("a zip extra field");
    if (id != kZip64Extra) {
      if (size > reader.remaining()) return;  // padding by other programs; not ours to judge
      reader.take(size, "a zip extra field");
      continue;
    }
    for (uint64_t* number : {&entry.size, &entry.packed, &entry.header_offset}) {
      if (*number == kIn64) *number = reader.read<uint64_t>("a zip64 extra field");
    }
    return;
  }
}

Entry read_entry(ByteReader& reader) {
  constexpr std::string_view kWhat = "a zip directory entry";
  if (reader.read<uint32_t>(kWhat) != kEntry) refuse("a directory entry is not one", reader.origin());
  Entry entry;
  reader.take(4, kWhat);
  entry.flags = reader.read<uint16_t>(kWhat);
  entry.method = reader.read<uint16_t>(kWhat);
  reader.take(8, kWhat);
  entry.packed = reader.read<uint32_t>(kWhat);
  entry.size = reader.read<uint32_t>(kWhat);
  const auto name = reader.read<uint16_t>(kWhat), extra = reader.read<uint16_t>(kWhat),
             comment = reader.read<uint16_t>(kWhat);
  reader.take(8, kWhat);
  entry.header_offset = reader.read<uint32_t>(kWhat);
  entry.name = reader.take_text(name, kWhat);
  read_zip64_extra(entry, reader.take(extra, kWhat), reader.origin());
  reader.take(comment, kWhat);
  return entry;
}

// The data starts after the local header, whose name and extra field may differ in length from the entry's.
std::span<const std::byte> find_data(std::span<const std::byte> file, const Entry& entry,
                                     std::string_view origin) {
  if (entry.header_offset > file.size()) refuse("a member lies outside it", origin);
  ByteReader reader(file, origin, entry.header_offset);
  if (reader.read<uint32_t>("a zip member") != kLocalHeader) refuse("a member has no header", origin);
  reader.take(22, "a zip member");
  const auto name = reader.read<uint16_t>("a zip member"), extra = reader.read<uint16_t>("a zip member");
  reader.take(uint64_t{name} + extra, "a zip member");
  return reader.take(entry.size, fmt::format("member '{}'", printable(entry.name, 100)));
}

}  // namespace

std::map<std::string, ZipMember, std::less<>> parse_zip(std::span<const std::byte> file,
                                                        std::string_view origin) {
  const Directory directory = read_directory(file, origin);
  if (directory.offset > file.size() || directory.size > file.size() - directory.offset) {
    refuse("its directory lies outside it", origin);
  }
  ByteReader reader(file.subspan(directory.offset, directory.size), origin);
  std::map<std::string, ZipMember, std::less<>> members;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    Entry entry = read_entry(reader);
    if (entry.flags & kEncrypted)
      refuse(fmt::format("member '{}' is encrypted", printable(entry.name, 100)), origin);
    ZipMember member;
    member.stored = entry.method == 0 && entry.packed == entry.size;
    if (member.stored) member.bytes = find_data(file, entry, origin);
    if (!members.emplace(entry.name, member).second) {
      refuse(fmt::format("member '{}' stands twice", printable(entry.name, 100)), origin);
    }
  }
  return members;
}

}  // namespace openwork
